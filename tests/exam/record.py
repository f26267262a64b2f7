"""What became of each item: kept, written to files, and shown at the very end of a run."""

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import progress
import pytest
import report
from lacking import unmet_needs
from report import plural

# With more failures than this, only the first ones are shown; -v shows all.
MOST_IN_FULL = 3
UNUSABLE = "tests/adapters.py cannot be imported: "


class Record:
    """Keeps a row for each item of the examination; shows and writes them at the very end."""

    def __init__(
        self, report_file: Path | None, page_file: Path | None, progress_file: Path | None
    ) -> None:
        self.progress_file = progress_file
        self.report_file = report_file
        self.page_file = page_file
        self.rows: list[dict[str, Any]] = []
        self.missing: Counter[str] = Counter()
        """What tests need and this machine lacks, and how many were skipped for it."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.rows += [row for name, row in report.user_properties if name == "examination"]
        if report.skipped:
            self.missing.update(why for name, why in report.user_properties if name == "missing")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        """Leave out what pytest would say of failures, where there are many: see `show`."""
        stats = terminalreporter.stats
        before = dict(stats)
        failed = [row for row in self.rows if is_wrong(row)]
        if len(failed) > MOST_IN_FULL and terminalreporter.verbosity < 1:
            for kind in ("failed", "error"):
                stats[kind] = [one for one in stats.get(kind, []) if not is_examined(one)]
            stats.pop("warnings", None)
        try:
            return (yield)
        finally:
            stats.update(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write the rows, and show the table after everything that pytest and others show."""
        result = yield
        if self.report_file:
            report.write_rows(self.rows, self.report_file)
        if self.page_file:
            from page import write_page  # Jinja2, which only a page needs, loads slowly.

            write_page(self.rows, self.page_file)
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal and self.rows:
            self.show(terminal)
        if terminal and self.missing:
            lacking = [f"{plural(n, 'test')} skipped: {why}" for why, n in self.missing.items()]
            terminal.write_line("; ".join(lacking))
        return result

    def show(self, terminal: Any) -> None:
        terminal.section("examination")
        root = terminal.config.getoption("--submission") or Path(__file__).parents[2]
        unmet = ", ".join(unmet_needs(root)) if any(map(is_wrong, self.rows)) else ""
        if unusable := [row["message"] for row in self.rows if row["message"].startswith(UNUSABLE)]:
            terminal.write_line(f"{unusable[0]}\nNothing can be examined before.", red=True)
            return
        if unmet:
            terminal.write_line(f"Its pyproject.toml asks for {unmet}.", yellow=True)
        is_own = not terminal.config.getoption("--submission")
        for line, colour in report.table(self.rows, is_own):
            terminal.write_line(line, **({colour: True} if colour else {}))
        for line in report.first_failures(self.rows) if terminal.verbosity < 1 else ():
            terminal.write_line(line)
        if self.progress_file:
            terminal.write_line(progress.line(self.rows, self.progress_file))
        if self.page_file:
            terminal.write_line(f"All messages: {self.page_file}")


def is_wrong(row: dict[str, Any]) -> bool:
    return row["outcome"] in ("failed", "error")


def is_examined(one: Any) -> bool:
    return any(name == "examination" for name, _ in getattr(one, "user_properties", ()))
