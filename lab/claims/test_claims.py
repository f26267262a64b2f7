"""The ledger: claims are found, measured, judged and written."""

import re
import subprocess
import sys

from lab import ROOT
from lab.claims.ledger import TOPICS, find_entries


def test_there_are_claims_of_every_topic():
    assert {entry.topic for entry in find_entries()} == set(TOPICS)


def test_a_claim_is_measured_and_comes_out_as_on_the_page(tmp_path):
    command = [sys.executable, "-m", "lab.claims", "keepdim", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    written = (tmp_path / "claims.md").read_text(encoding="utf-8")
    page = (ROOT / "lab" / "claims" / "claims.md").read_text(encoding="utf-8")
    row = re.compile(r'^\| <a id="keepdim"></a>.*?\|(.*?)\|', re.MULTILINE)
    assert row.findall(written) == row.findall(page) != []


def test_links_of_the_explanation_lead_to_rows():
    text = (ROOT / "docs" / "norms.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"lab/claims/claims\.md#([\w-]+)\)", text))
    assert linked  # The one heading that is linked is no claim.
    assert linked - {"errors-that-circulate"} <= {entry.name for entry in find_entries()}
