"""On the class page: who answers like others, where no diagnosis says why."""

import re
from collections.abc import Mapping, Sequence

from cs_grader.outputs import reading
from cs_grader.outputs.class_table import link
from cs_grader.outputs.cluster_names import FILE, ClusterName, Named
from cs_grader.outputs.clusters import Cluster
from cs_grader.outputs.page import Html, element, join
from cs_grader.outputs.plain_text import one_line, plain
from cs_grader.result import Problem, Result

MAX_CLUSTERS = 20
MAX_MEMBERS = 12
NUM_SOURCES = 3


def clusters_section(
    named: Sequence[Named], results: Sequence[Result], problems: Mapping[str, Problem]
) -> Html:
    """Return the section; nothing if nobody answers like anybody else.

    Args:
        named: Clusters and their names, the largest first.
        results: Of everyone.
        problems: The problems by id.
    """
    shared = [(one, name) for one, name in named if len(one.members) > 1 or name]
    # What has no name yet is what there is to do.
    shared.sort(key=lambda pair: pair[1] is not None)
    if not shared:
        return Html()
    by_name = {result.submission: result for result in results}
    cards = [
        _card(cluster, name, by_name, reading.title(problems[cluster.problem]))
        for cluster, name in shared[:MAX_CLUSTERS]
    ]
    left = len(shared) - MAX_CLUSTERS
    more = f"... and {left} more groups, each as small or smaller." if left > 0 else ""
    return element(
        "section",
        element("h2", "Wrong in the same way, without a diagnosis"),
        element(
            "p",
            "Each group gives the same wrong answers to the same checks, and the examination knows "
            "no name for the mistake. With a name and a hint in ",
            element("code", FILE),
            " the pages of all its members say so: grade.py with --pages writes them again.",
            class_="soft",
        ),
        *cards,
        element("p", more, class_="soft"),
        id="clusters",
    )


def _card(
    cluster: Cluster, name: ClusterName | None, by_name: Mapping[str, Result], title: str
) -> Html:
    num = len(cluster.members)
    who = f"{num} submissions answer like this" if num > 1 else "One submission answers like this"
    checks = "1 check" if cluster.num_items == 1 else f"{cluster.num_items} checks"
    called = join(": ", element("b", name.name)) if name else Html()
    return element(
        "article",
        element("h3", f"{title}: {who}", called),
        element("p", name.hint) if name and name.hint else "",
        *_example(cluster),
        element("p", f"Not passed: {checks}. ", _members(cluster, by_name), class_="small"),
        _sources(cluster, by_name),
        "" if name else _to_paste(cluster),
        class_="card cluster",
    )


def _example(cluster: Cluster) -> list[Html]:
    """The smallest input, with what is right and what came."""
    item, taken = cluster.example, cluster.example.fingerprint
    if taken is None:
        return []
    if not taken.expected:
        # The message of a finding begins with the call, which is shown already.
        text = re.sub(r"^asked for .*\n", "", plain(item.message).strip())
        shown = element("pre", text)
    else:
        rows = [
            element("tr", element("th", head, scope="row"), element("td", element("code", text)))
            for head, text in (("expected", taken.expected), ("theirs", taken.got))
        ]
        shown = element("table", element("tbody", *rows), class_="answers")
    asked = element("p", "Smallest input: ", element("code", taken.asked or reading.name(item)))
    return [asked, shown]


def _members(cluster: Cluster, by_name: Mapping[str, Result]) -> Html:
    links: list[str] = []
    for member in cluster.members[:MAX_MEMBERS]:
        page = link(by_name[member], "instructor")
        links += [", " if links else "", element("a", one_line(member), href=page)]
    left = len(cluster.members) - MAX_MEMBERS
    return join("Submissions: ", *links, f" and {left} more." if left > 0 else ".")


def _sources(cluster: Cluster, by_name: Mapping[str, Result]) -> Html:
    """How a few of them have written it."""
    found = [
        (member, source)
        for member in cluster.members
        for source in by_name[member].sources
        if source.problem == cluster.problem
    ][:NUM_SOURCES]
    if not found:
        return Html()
    shown = [
        element(
            "div",
            element("p", one_line(member), class_="small"),
            element("p", element("code", f"{one_line(source.file)}, line {source.line}")),
            element("pre", plain(source.text, 4000)),
        )
        for member, source in found
    ]
    words = "What one of them wrote" if len(found) == 1 else f"What {len(found)} of them wrote"
    return element(
        "details", element("summary", words), element("div", *shown, class_="side-by-side")
    )


def _to_paste(cluster: Cluster) -> Html:
    like = _quoted(cluster.members[0])
    lines = ["[[cluster]]", f'problem = "{cluster.problem}"', f"like = {like}"]
    text = "\n".join([*lines, 'name = ""', 'hint = ""'])
    return element(
        "details", element("summary", f"Name it: fill in and add to {FILE}"), element("pre", text)
    )


def _quoted(text: str) -> str:
    """A text as TOML has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
