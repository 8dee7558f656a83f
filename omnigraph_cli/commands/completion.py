"""`omnigraph completion bash|zsh|fish`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.generate import SHELLS, completion_script
from omnigraph_cli.run import Run, command
from omnigraph_core.errors import UsageError


def register(app: typer.Typer) -> None:
    @command(
        app,
        "completion",
        is_text=False,
        takes_graph=False,
        needs_settings=False,
        examples=[
            "omnigraph completion bash > ~/.local/share/bash-completion/completions/omnigraph",
            "omnigraph completion zsh > ~/.zfunc/_omnigraph",
            "omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish",
        ],
    )
    def completion(
        run: Run, shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]
    ) -> None:
        """Print the completion script for a shell."""
        if shell not in SHELLS:
            raise UsageError(f"no completion for '{shell}'", hint="use one of " + ", ".join(SHELLS))
        script = completion_script(shell)
        run.output.document({"shell": shell, "script": script}, script)
