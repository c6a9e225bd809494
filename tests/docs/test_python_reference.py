"""docs/python_reference.md is what its program writes from the docstrings, and leaves nothing out."""

from __future__ import annotations

import subprocess
import sys

import pytest

import perdure
import perdure.client
import perdure.testing
from tests.docs.markdown import page

PAGE = page("docs/python_reference.md")
PROGRAM = PAGE.path.with_suffix(".py")


def test_the_page_is_up_to_date() -> None:
    written = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=True).stdout

    assert PAGE.text == written, "run: python docs/python_reference.py > docs/python_reference.md"


@pytest.mark.parametrize("package", [perdure, perdure.client, perdure.testing], ids=lambda package: package.__name__)
def test_every_public_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert f"\n### {package.__name__}.{name}\n" in PAGE.text  # type: ignore[attr-defined]
