"""What a person types and sees: commands, output, exit codes. No storage code."""
