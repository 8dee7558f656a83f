"""Reading inputs: from bytes in a format to rows of a type, each with its line. Knows no graph."""
