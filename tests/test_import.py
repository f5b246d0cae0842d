"""What `import sayso` costs: every process that resumes a run pays it."""

import subprocess
import sys

HEAVY = {
    "anthropic",
    "cel_expr_python",
    "click",
    "cryptography",
    "httpx2",
    "jsonschema",
    "openai",
    "psycopg",
    "pydantic",
    "pydantic_ai",
    "referencing",
    "rich",
    "yaml",
}


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, sayso; print(*{name.partition('.')[0] for name in sys.modules})"

    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    ).stdout

    assert HEAVY.isdisjoint(printed.decode().split())
