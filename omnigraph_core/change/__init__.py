"""Changes: values, identities and violations that load, `change` and merge have in common."""
