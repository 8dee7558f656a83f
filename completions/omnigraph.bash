_omnigraph_completion() {
    local IFS=$'
'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \
                   COMP_CWORD=$COMP_CWORD \
                   _OMNIGRAPH_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _omnigraph_completion omnigraph
