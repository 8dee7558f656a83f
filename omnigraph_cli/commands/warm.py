"""`omnigraph warm …`."""

from __future__ import annotations

import typer

from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command, command_group
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    group = command_group(app, "warm", help="The background process behind quick starts (OMNIGRAPH_WARM).")

    @command(
        group,
        "status",
        takes_graph=False,
        examples=["omnigraph warm status", "omnigraph warm status --json"],
    )
    def status(run: Run) -> None:
        """Show the background processes: pid, age, commands served, memory."""
        from omnigraph_cli.warm import control, wire

        servers, reason = control.ask_all(wire.STATUS), control.last_cold()
        columns = ["pid", "age", "served", "running", "memory", "leaves after"]
        rows = [
            (
                each["pid"],
                f"{each['age_s']:.0f} s",
                each["served"],
                each["running"],
                f"{each['memory_bytes'] >> 20} MiB",
                f"{each['idle_s']:.0f} s idle",
            )
            for each in servers
        ]
        if reason is not None:
            run.output.remark(f"the last cold start: {reason}")
        content = shapes.warm_servers(servers, run.settings.warm_idle_s, reason)
        if servers:
            run.output.rows(content, counted(len(servers), "process", "processes"), columns, rows)
        else:
            is_on = run.settings.warm_idle_s is not None
            hint = "the next command starts one" if is_on else "OMNIGRAPH_WARM=10m turns warm starts on"
            run.output.result(content, f"no background process is running; {hint}")

    @command(group, "stop", takes_graph=False, examples=["omnigraph warm stop"])
    def stop(run: Run) -> None:
        """End the background processes. Commands that they are running go on to their end."""
        from omnigraph_cli.warm import control, wire

        servers = control.ask_all(wire.STOP)
        content = shapes.warm_servers(servers, run.settings.warm_idle_s, None)
        pids = ", ".join(str(each["pid"]) for each in servers)
        text = f"stopped {pids}" if servers else "no background process is running"
        run.output.result(content, text)
