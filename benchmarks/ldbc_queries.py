"""The questions of LDBC SNB interactive, as far as all of the languages can say them, in each of them.

Short reads look at one person or message, complex reads walk from a person to friends of friends and to what
they write; the last few read everything. `$key` is a parameter everywhere. An answer has one possible order.
A reach such as `knows{1,3}` counts everybody once, by the shortest way.
"""

from dataclasses import dataclass

TYPES = {
    "person": "String",
    "first": "String",
    "language": "String",
    "year": "I32",
    "country": "String",
    "tag": "String",
    "kind": "String",
    "post": "String",
    "comment": "String",
    "forum": "String",
    "since": "DateTime",
    "until": "DateTime",
}
"""Parameters and their types, as our language has them."""


@dataclass(frozen=True)
class Question:
    gq: str
    sql: str
    cypher: str


def near(low: int, high: int) -> str:
    """In SQL, whom a person reaches: `friend` and how far away."""
    return (
        "(WITH RECURSIVE walk(friend, hops) AS (SELECT $person::VARCHAR, 0 UNION "
        f"SELECT K.d, hops + 1 FROM walk JOIN K ON K.s = friend WHERE hops < {high}) "
        f"SELECT friend, min(hops) FROM walk GROUP BY friend HAVING min(hops) BETWEEN {low} AND {high})"
    )


def reach(low: int, high: int) -> str:
    """The same in Cypher, up to the WHERE."""
    return f"MATCH (p:Person {{name: $person}})-[e:Knows* SHORTEST {low}..{high}]-(f:Person)"


ME = "$p: Person { name: $person }"

SHORT = {
    "short 1, a profile": Question(
        f"match {{ {ME} $p livesIn $c }} return {{ $p.firstName, $p.lastName, $p.gender, $p.birthday, "
        "$p.created, $p.browser, $p.speaks, $c.name as city }",
        "SELECT p.firstName, p.lastName, p.gender, p.birthday, p.created, p.browser, p.speaks, l.dst "
        "FROM Person p JOIN LivesIn l ON l.src = p.name WHERE p.name = $person",
        "MATCH (p:Person {name: $person})-[:LivesIn]->(c:City) RETURN p.firstName, p.lastName, p.gender, "
        "p.birthday, p.created, p.browser, p.speaks, c.name",
    ),
    "short 2, somebody's newest comments on posts": Question(
        f"match {{ {ME} $c commentCreator $p $c answersPost $m $m postCreator $a }} "
        "return { $c.name as comment, $c.content as text, $c.created as at, $m.name as post, "
        "$a.name as who } "
        "order { at desc, comment } limit 10",
        "SELECT c.name, c.content, c.created, r.dst, w.dst FROM CommentCreator cc "
        "JOIN Comment c ON c.name = cc.src JOIN AnswersPost r ON r.src = c.name "
        "JOIN PostCreator w ON w.src = r.dst WHERE cc.dst = $person "
        "ORDER BY c.created DESC, c.name LIMIT 10",
        "MATCH (c:Comment)-[:CommentCreator]->(p:Person {name: $person}), "
        "(c)-[:AnswersPost]->(m:Post)-[:PostCreator]->(a:Person) "
        "RETURN c.name, c.content, c.created, m.name, a.name ORDER BY c.created DESC, c.name LIMIT 10",
    ),
    "short 3, friends and since when": Question(
        f"match {{ {ME} $p $k:<knows> $f }} return {{ $f.name as who, $f.firstName, $f.lastName, "
        "$k.since as since } order { since desc, who }",
        "SELECT f.name, f.firstName, f.lastName, k.since FROM (SELECT src, dst, since FROM Knows UNION ALL "
        "SELECT dst, src, since FROM Knows) k JOIN Person f ON f.name = k.dst WHERE k.src = $person "
        "ORDER BY k.since DESC, f.name",
        "MATCH (p:Person {name: $person})-[k:Knows]-(f:Person) "
        "RETURN f.name, f.firstName, f.lastName, k.since ORDER BY k.since DESC, f.name",
    ),
    "short 4, a message": Question(
        "match { $m: Post { name: $post } } return { $m.content, $m.image, $m.language, $m.created }",
        "SELECT content, image, language, created FROM Post WHERE name = $post",
        "MATCH (m:Post {name: $post}) RETURN m.content, m.image, m.language, m.created",
    ),
    "short 5, who wrote it": Question(
        "match { $c: Comment { name: $comment } $c commentCreator $p } "
        "return { $p.name, $p.firstName, $p.lastName }",
        "SELECT p.name, p.firstName, p.lastName FROM CommentCreator c JOIN Person p ON p.name = c.dst "
        "WHERE c.src = $comment",
        "MATCH (c:Comment {name: $comment})-[:CommentCreator]->(p:Person) "
        "RETURN p.name, p.firstName, p.lastName",
    ),
    "short 6, the forum of a post": Question(
        "match { $m: Post { name: $post } $f containerOf $m $f hasModerator $p } "
        "return { $f.name as forum, $f.title, $p.name as who, $p.lastName }",
        "SELECT f.name, f.title, p.name, p.lastName FROM ContainerOf c JOIN Forum f ON f.name = c.src "
        "JOIN HasModerator h ON h.src = f.name JOIN Person p ON p.name = h.dst WHERE c.dst = $post",
        "MATCH (f:Forum)-[:ContainerOf]->(m:Post {name: $post}), (f)-[:HasModerator]->(p:Person) "
        "RETURN f.name, f.title, p.name, p.lastName",
    ),
    "short 7, answers by strangers": Question(
        "match { $m: Post { name: $post } $m postCreator $a $c answersPost $m $c commentCreator $b "
        "not { $a <knows> $b } } return { $c.name as comment, $c.content, $c.created as at, $b.name as who } "
        "order { at desc, who, comment }",
        "SELECT c.name, c.content, c.created, b.dst FROM PostCreator a JOIN AnswersPost r ON r.dst = a.src "
        "JOIN Comment c ON c.name = r.src JOIN CommentCreator b ON b.src = c.name WHERE a.src = $post "
        "AND NOT EXISTS (SELECT 1 FROM K WHERE K.s = a.dst AND K.d = b.dst) "
        "ORDER BY c.created DESC, b.dst, c.name",
        "MATCH (m:Post {name: $post})-[:PostCreator]->(a:Person), "
        "(c:Comment)-[:AnswersPost]->(m), (c)-[:CommentCreator]->(b:Person) "
        "WHERE NOT EXISTS { MATCH (a)-[:Knows]-(b) } "
        "RETURN c.name, c.content, c.created, b.name ORDER BY c.created DESC, b.name, c.name",
    ),
}

COMPLEX = {
    "complex 1, people of a first name": Question(
        f"match {{ {ME} $p <knows>{{1,3}} $f $f.firstName = $first $f livesIn $c }} "
        "return { $f.lastName as last, $f.name as who, $f.birthday, $c.name as city } "
        "order { last, who } limit 20",
        f"SELECT f.lastName, f.name, f.birthday, l.dst FROM {near(1, 3)} n JOIN Person f ON f.name "
        "= n.friend "
        "JOIN LivesIn l ON l.src = f.name WHERE f.firstName = $first ORDER BY f.lastName, f.name LIMIT 20",
        f"{reach(1, 3)}, (f)-[:LivesIn]->(c:City) WHERE f.name <> $person AND f.firstName = $first "
        "RETURN f.lastName, f.name, f.birthday, c.name ORDER BY f.lastName, f.name LIMIT 20",
    ),
    "complex 2, the newest posts of friends": Question(
        f"match {{ {ME} $p <knows> $f $m postCreator $f $m.created <= $until }} "
        "return { $f.name as who, $m.name as post, $m.content, $m.image, $m.created as at } "
        "order { at desc, post } limit 20",
        "SELECT k.d, m.name, m.content, m.image, m.created FROM K k JOIN PostCreator w ON w.dst = k.d "
        "JOIN Post m ON m.name = w.src WHERE k.s = $person AND m.created <= $until "
        "ORDER BY m.created DESC, m.name LIMIT 20",
        "MATCH (p:Person {name: $person})-[:Knows]-(f:Person)<-[:PostCreator]-(m:Post) "
        "WHERE m.created <= $until RETURN f.name, m.name, m.content, m.image, m.created "
        "ORDER BY m.created DESC, m.name LIMIT 20",
    ),
    "complex 3, friends abroad": Question(
        f"match {{ {ME} $p <knows>{{1,2}} $f $f livesIn $c $c partOf $l $l.name != $country "
        "$m commentCreator $f $m.created >= $since $m.created < $until } "
        "return { $f.name as who, $l.name as country, count($m) as n } order { n desc, who } limit 20",
        f"SELECT n.friend, l.dst, count(*) FROM {near(1, 2)} n JOIN LivesIn c ON c.src = n.friend "
        "JOIN PartOf l ON l.src = c.dst JOIN CommentCreator w ON w.dst = n.friend "
        "JOIN Comment m ON m.name = w.src WHERE l.dst <> $country AND m.created >= $since "
        "AND m.created < $until GROUP BY n.friend, l.dst ORDER BY count(*) DESC, n.friend LIMIT 20",
        f"{reach(1, 2)}, (f)-[:LivesIn]->(c:City)-[:PartOf]->(l:Country), (m:Comment)-[:CommentCreator]->(f) "
        "WHERE f.name <> $person AND l.name <> $country AND m.created >= $since AND m.created < $until "
        "RETURN f.name AS who, l.name, count(*) AS n ORDER BY n DESC, who LIMIT 20",
    ),
    "complex 4, new topics": Question(
        f"match {{ {ME} $p <knows> $f $m postCreator $f $m postTag $t $m.created >= $since "
        "$m.created < $until not { $p <knows> $g $o postCreator $g $o postTag $t $o.created < $since } } "
        "return { $t.name as tag, count($m) as n } order { n desc, tag } limit 10",
        "SELECT t.dst, count(*) FROM K k JOIN PostCreator w ON w.dst = k.d JOIN Post m ON m.name = w.src "
        "JOIN PostTag t ON t.src = m.name WHERE k.s = $person AND m.created >= $since AND m.created < $until "
        "AND NOT EXISTS (SELECT 1 FROM K g JOIN PostCreator u ON u.dst = g.d JOIN Post o ON o.name = u.src "
        "JOIN PostTag s ON s.src = o.name WHERE g.s = $person AND s.dst = t.dst AND o.created < $since) "
        "GROUP BY t.dst ORDER BY count(*) DESC, t.dst LIMIT 10",
        "MATCH (p:Person {name: $person})-[:Knows]-(f:Person)<-[:PostCreator]-(m:Post)-[:PostTag]->(t:Tag) "
        "WHERE m.created >= $since AND m.created < $until AND NOT EXISTS { MATCH "
        "(p)-[:Knows]-(g:Person)<-[:PostCreator]-(o:Post)-[:PostTag]->(t) WHERE o.created < $since } "
        "RETURN t.name AS tag, count(*) AS n ORDER BY n DESC, tag LIMIT 10",
    ),
    "complex 5, new groups": Question(
        f"match {{ {ME} $p <knows>{{1,2}} $f $g $w:hasMember $f $w.joined > $since "
        "$g containerOf $m $m postCreator $f } "
        "return { $g.title as title, $g.name as forum, count($m) as n } order { n desc, forum } limit 20",
        f"SELECT g.title, g.name, count(*) FROM {near(1, 2)} n JOIN HasMember w ON w.dst = n.friend "
        "JOIN Forum g ON g.name = w.src JOIN ContainerOf c ON c.src = g.name "
        "JOIN PostCreator u ON u.src = c.dst AND u.dst = n.friend WHERE w.joined > $since "
        "GROUP BY g.title, g.name ORDER BY count(*) DESC, g.name LIMIT 20",
        f"{reach(1, 2)}, (g:Forum)-[w:HasMember]->(f), (g)-[:ContainerOf]->(m:Post)-[:PostCreator]->(f) "
        "WHERE f.name <> $person AND w.joined > $since "
        "RETURN g.title, g.name AS forum, count(*) AS n ORDER BY n DESC, forum LIMIT 20",
    ),
    "complex 6, tags beside a tag": Question(
        f"match {{ {ME} $p <knows>{{1,2}} $f $m postCreator $f $t: Tag {{ name: $tag }} $m postTag $t "
        "$m postTag $o $o.name != $tag } "
        "return { $o.name as other, count($m) as n } order { n desc, other } limit 10",
        f"SELECT o.dst, count(*) FROM {near(1, 2)} n JOIN PostCreator w ON w.dst = n.friend "
        "JOIN PostTag t ON t.src = w.src JOIN PostTag o ON o.src = w.src WHERE t.dst = $tag AND "
        "o.dst <> $tag "
        "GROUP BY o.dst ORDER BY count(*) DESC, o.dst LIMIT 10",
        f"{reach(1, 2)}, (m:Post)-[:PostCreator]->(f), (m)-[:PostTag]->(t:Tag {{name: $tag}}), "
        "(m)-[:PostTag]->(o:Tag) WHERE f.name <> $person AND o.name <> $tag "
        "RETURN o.name AS other, count(*) AS n ORDER BY n DESC, other LIMIT 10",
    ),
    "complex 7, new likes from strangers": Question(
        f"match {{ {ME} $m postCreator $p $l $w:likesPost $m not {{ $l <knows> $p }} }} "
        "return { $l.name as who, $w.at as at, $m.name as post } order { at desc, who, post } limit 20",
        "SELECT l.src, l.at, l.dst FROM PostCreator w JOIN LikesPost l ON l.dst = w.src WHERE w.dst "
        "= $person "
        "AND NOT EXISTS (SELECT 1 FROM K WHERE K.s = l.src AND K.d = $person) "
        "ORDER BY l.at DESC, l.src, l.dst LIMIT 20",
        "MATCH (l:Person)-[w:LikesPost]->(m:Post)-[:PostCreator]->(p:Person {name: $person}) "
        "WHERE NOT EXISTS { MATCH (l)-[:Knows]-(p) } "
        "RETURN l.name, w.at, m.name ORDER BY w.at DESC, l.name, m.name LIMIT 20",
    ),
    "complex 8, the newest answers": Question(
        f"match {{ {ME} $m commentCreator $p $c answersComment $m $c commentCreator $a }} "
        "return { $a.name as who, $c.name as comment, $c.content, $c.created as at } "
        "order { at desc, comment } limit 20",
        "SELECT a.dst, c.name, c.content, c.created FROM CommentCreator w JOIN AnswersComment r ON "
        "r.dst = w.src "
        "JOIN Comment c ON c.name = r.src JOIN CommentCreator a ON a.src = c.name WHERE w.dst = $person "
        "ORDER BY c.created DESC, c.name LIMIT 20",
        "MATCH (m:Comment)-[:CommentCreator]->(p:Person {name: $person}), "
        "(c:Comment)-[:AnswersComment]->(m), (c)-[:CommentCreator]->(a:Person) "
        "RETURN a.name, c.name, c.content, c.created ORDER BY c.created DESC, c.name LIMIT 20",
    ),
    "complex 9, the newest comments around": Question(
        f"match {{ {ME} $p <knows>{{1,2}} $f $m commentCreator $f $m.created < $until }} "
        "return { $f.name as who, $m.name as comment, $m.content, $m.created as at } "
        "order { at desc, comment } limit 20",
        f"SELECT n.friend, m.name, m.content, m.created FROM {near(1, 2)} n "
        "JOIN CommentCreator w ON w.dst = n.friend JOIN Comment m ON m.name = w.src "
        "WHERE m.created < $until ORDER BY m.created DESC, m.name LIMIT 20",
        f"{reach(1, 2)}, (m:Comment)-[:CommentCreator]->(f) WHERE f.name <> $person AND m.created < $until "
        "RETURN f.name, m.name, m.content, m.created ORDER BY m.created DESC, m.name LIMIT 20",
    ),
    "complex 10, whom to meet": Question(
        f"match {{ {ME} $p <knows>{{2,2}} $f $m postCreator $f $m postTag $t $p hasInterest $t "
        "$f.speaks contains $language } "
        "return { $f.name as who, $f.birthday as born, count($m) as n, sum($m.length) as total, "
        "avg($m.length) as mean } order { n desc, who } limit 10",
        "SELECT f.name, f.birthday, count(*), sum(m.length)::DOUBLE, avg(m.length) "
        f"FROM {near(2, 2)} n JOIN Person f ON f.name = n.friend JOIN PostCreator w ON w.dst = f.name "
        "JOIN Post m ON m.name = w.src JOIN PostTag t ON t.src = m.name "
        "JOIN HasInterest i ON i.dst = t.dst AND i.src = $person WHERE list_contains(f.speaks, $language) "
        "GROUP BY f.name, f.birthday ORDER BY count(*) DESC, f.name LIMIT 10",
        f"{reach(1, 2)}, (m:Post)-[:PostCreator]->(f), (m)-[:PostTag]->(t:Tag), (p)-[:HasInterest]->(t) "
        "WHERE length(e) = 2 AND f.name <> $person AND list_contains(f.speaks, $language) "
        "RETURN f.name AS who, f.birthday, count(*) AS n, CAST(sum(m.length) AS DOUBLE), avg(m.length) "
        "ORDER BY n DESC, who LIMIT 10",
    ),
    "complex 11, jobs abroad": Question(
        f"match {{ {ME} $p <knows>{{1,2}} $f $f $w:workAt $o $w.start < $year $o companyIn $l "
        "$l: Country { name: $country } } "
        "return { $w.start as start, $f.name as who, $o.name as company } "
        "order { start, who, company desc } limit 10",
        f"SELECT w.start, n.friend, w.dst FROM {near(1, 2)} n JOIN WorkAt w ON w.src = n.friend "
        "JOIN CompanyIn l ON l.src = w.dst WHERE w.start < $year AND l.dst = $country "
        "ORDER BY w.start, n.friend, w.dst DESC LIMIT 10",
        f"{reach(1, 2)}, (f)-[w:WorkAt]->(o:Company)-[:CompanyIn]->(l:Country {{name: $country}}) "
        "WHERE f.name <> $person AND w.start < $year RETURN w.start, f.name, o.name "
        "ORDER BY w.start, f.name, o.name DESC LIMIT 10",
    ),
    "complex 12, experts among friends": Question(
        f"match {{ {ME} $p <knows> $f $c commentCreator $f $c answersPost $m $m postTag $t $t tagType $k "
        "$k subclassOf{1,4} $u $u: TagClass { name: $kind } } "
        "return { $f.name as who, count($c) as n, min($t.name) as first, max($t.name) as last } "
        "order { n desc, who } limit 20",
        "WITH RECURSIVE above(k, u, h) AS (SELECT src, dst, 1 FROM SubclassOf UNION "
        "SELECT a.k, s.dst, a.h + 1 FROM above a JOIN SubclassOf s ON s.src = a.u WHERE a.h < 4) "
        "SELECT n.d, count(*), min(t.dst), max(t.dst) FROM K n JOIN CommentCreator w ON w.dst = n.d "
        "JOIN AnswersPost r ON r.src = w.src JOIN PostTag t ON t.src = r.dst JOIN TagType y ON y.src = t.dst "
        "JOIN above a ON a.k = y.dst WHERE n.s = $person AND a.u = $kind "
        "GROUP BY n.d ORDER BY count(*) DESC, n.d LIMIT 20",
        "MATCH (p:Person {name: $person})-[:Knows]-(f:Person)<-[:CommentCreator]-(c:Comment)"
        "-[:AnswersPost]->(m:Post)-[:PostTag]->(t:Tag)-[:TagType]->(k:TagClass)"
        "-[:SubclassOf* SHORTEST 1..4]->(u:TagClass {name: $kind}) "
        "RETURN f.name AS who, count(*) AS n, min(t.name), max(t.name) ORDER BY n DESC, who LIMIT 20",
    ),
    "complex 13, how many are four away": Question(
        f"match {{ {ME} $p <knows>{{4,4}} $f }} return {{ count($f) as n, min($f.lastName) as last }}",
        f"SELECT count(*), min(f.lastName) FROM {near(4, 4)} n JOIN Person f ON f.name = n.friend",
        f"{reach(1, 4)} WHERE length(e) = 4 AND f.name <> $person RETURN count(*), min(f.lastName)",
    ),
    "complex 14, friends who are friends and talk": Question(
        f"match {{ {ME} $p <knows> $f $f <knows> $g $p <knows> $g $c commentCreator $f $c answersPost $m "
        "$m postCreator $g } return { $f.name as one, $g.name as other, count($c) as n } "
        "order { n desc, one, other } limit 20",
        "SELECT a.d, b.d, count(*) FROM K a JOIN K b ON b.s = a.d JOIN K c ON c.s = $person AND c.d = b.d "
        "JOIN CommentCreator w ON w.dst = a.d JOIN AnswersPost r ON r.src = w.src "
        "JOIN PostCreator u ON u.src = r.dst AND u.dst = b.d WHERE a.s = $person "
        "GROUP BY a.d, b.d ORDER BY count(*) DESC, a.d, b.d LIMIT 20",
        "MATCH (p:Person {name: $person})-[:Knows]-(f:Person)-[:Knows]-(g:Person), (p)-[:Knows]-(g), "
        "(c:Comment)-[:CommentCreator]->(f), (c)-[:AnswersPost]->(m:Post)-[:PostCreator]->(g) "
        "RETURN f.name AS one, g.name AS other, count(*) AS n ORDER BY n DESC, one, other LIMIT 20",
    ),
}

WHOLE = {
    "whole 1, posts by country and language": Question(
        "match { $m: Post $m postCreator $a $a livesIn $c $c partOf $l } "
        "return { $l.name as country, $m.language as language, count($m) as n, avg($m.length) as mean, "
        "max($m.length) as longest } order { n desc, country, language }",
        "SELECT l.dst, m.language, count(*), avg(m.length), max(m.length) FROM Post m "
        "JOIN PostCreator w ON w.src = m.name JOIN LivesIn c ON c.src = w.dst JOIN PartOf l ON l.src = c.dst "
        "GROUP BY l.dst, m.language ORDER BY count(*) DESC, l.dst, m.language NULLS FIRST",
        "MATCH (m:Post)-[:PostCreator]->(a:Person)-[:LivesIn]->(c:City)-[:PartOf]->(l:Country) "
        "RETURN l.name AS country, m.language AS language, count(*) AS n, avg(m.length), max(m.length) "
        "ORDER BY n DESC, country, language IS NOT NULL, language",
    ),
    "whole 2, forums of strangers": Question(
        "match { $g: Forum { name: $forum } $g hasMember $a $g hasMember $b $a.name < $b.name "
        "not { $a <knows>{1,2} $b } } return { $a.name as one, $b.name as other } order { one, "
        "other } limit 50",
        "SELECT a.dst, b.dst FROM HasMember a JOIN HasMember b ON b.src = a.src AND a.dst < b.dst "
        "WHERE a.src = $forum AND NOT EXISTS (SELECT 1 FROM K WHERE s = a.dst AND d = b.dst) "
        "AND NOT EXISTS (SELECT 1 FROM K x JOIN K y ON y.s = x.d WHERE x.s = a.dst AND y.d = b.dst) "
        "ORDER BY a.dst, b.dst LIMIT 50",
        "MATCH (g:Forum {name: $forum})-[:HasMember]->(a:Person), (g)-[:HasMember]->(b:Person) "
        "WHERE a.name < b.name AND NOT EXISTS { MATCH (a)-[:Knows]-(b) } "
        "AND NOT EXISTS { MATCH (a)-[:Knows]-(:Person)-[:Knows]-(b) } "
        "RETURN a.name, b.name ORDER BY a.name, b.name LIMIT 50",
    ),
    "whole 3, the depth of threads": Question(
        "match { $c: Comment $c answersComment{1,5} $r $r answersPost $m $g containerOf $m } "
        "return { $g.name as forum, count($c) as n, min($c.length) as shortest } "
        "order { n desc, forum } limit 20",
        "WITH RECURSIVE up(c, r, h) AS (SELECT src, dst, 1 FROM AnswersComment UNION "
        "SELECT u.c, a.dst, u.h + 1 FROM up u JOIN AnswersComment a ON a.src = u.r WHERE u.h < 5) "
        "SELECT g.src, count(*), min(c.length) FROM up JOIN Comment c ON c.name = up.c "
        "JOIN AnswersPost r ON r.src = up.r JOIN ContainerOf g ON g.dst = r.dst "
        "GROUP BY g.src ORDER BY count(*) DESC, g.src LIMIT 20",
        "MATCH (c:Comment)-[:AnswersComment* SHORTEST 1..5]->(r:Comment)-[:AnswersPost]->(m:Post)"
        "<-[:ContainerOf]-(g:Forum) "
        "RETURN g.name AS forum, count(*) AS n, min(c.length) ORDER BY n DESC, forum LIMIT 20",
    ),
    "whole 4, who writes and is never liked": Question(
        "match { $p: Person $m postCreator $p not { $o postCreator $p $_ likesPost $o } "
        "not { $p hasInterest $t $t: Tag { name: $tag } } } "
        "return { $p.name as who, count($m) as n } order { n desc, who } limit 50",
        "SELECT w.dst, count(*) FROM PostCreator w WHERE NOT EXISTS (SELECT 1 FROM PostCreator o "
        "JOIN LikesPost l ON l.dst = o.src WHERE o.dst = w.dst) AND NOT EXISTS "
        "(SELECT 1 FROM HasInterest i WHERE i.src = w.dst AND i.dst = $tag) "
        "GROUP BY w.dst ORDER BY count(*) DESC, w.dst LIMIT 50",
        "MATCH (m:Post)-[:PostCreator]->(p:Person) WHERE NOT EXISTS "
        "{ MATCH (:Person)-[:LikesPost]->(:Post)-[:PostCreator]->(p) } AND NOT EXISTS "
        "{ MATCH (p)-[:HasInterest]->(:Tag {name: $tag}) } "
        "RETURN p.name AS who, count(*) AS n ORDER BY n DESC, who LIMIT 50",
    ),
}

QUESTIONS = {**SHORT, **COMPLEX, **WHOLE}


def used(text: str) -> list[str]:
    """The parameters that a text speaks of."""
    import re

    words = set(re.findall(r"\$(\w+)", text))
    return [key for key in TYPES if key in words]


def source(name: str) -> str:
    """A question in our language, with its parameters declared."""
    body = QUESTIONS[name].gq
    declared = ", ".join(f"${key}: {TYPES[key]}" for key in used(body))
    return f"query q({declared}) {{ {body} }}"
