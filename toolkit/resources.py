"""Find the files that come with the toolkit: prompts, cases, the marketplace, the batch notebook.

In a checkout they lie beside the package, where a user edits them; a wheel carries copies in `toolkit/bundled`.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent
ROOTS = (_PACKAGE.parent, _PACKAGE / "bundled")


def root() -> Path:
    """Return the folder that holds `prompts/` and `data/`.

    Raises:
        ConfigError: the installation lacks them.
    """
    for folder in ROOTS:
        if (folder / "prompts").is_dir() and (folder / "data" / "cases").is_dir():
            return folder
    raise ConfigError(
        f"The toolkit's prompts and cases are missing beside {str(_PACKAGE)!r}. Install the package again."
    )


def path(name: str) -> Path:
    """Return where a file or folder of the toolkit lies, such as `path("prompts/airgap")`.

    Raises:
        ConfigError: there is no such file or folder.
    """
    found = root() / name
    if not found.exists():
        raise ConfigError(f"The toolkit has no {name!r}. Look into {str(found.parent)!r}.")
    return found
