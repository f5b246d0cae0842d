"""Fair shares: the rule against one too simple to be wrong, and what a file does for it."""

import apsw
from hypothesis import given
from hypothesis import strategies as st

from sayso.store import fair
from sayso.store.fair import Free, share
from sayso.store.migrate import migrate, released

PROJECTS = st.sampled_from("abcd")


def one_after_another(free, owned, limit, bound):
    """Give the next run to the project that has the fewest, and there to the oldest."""
    free, counts, given_ = sorted(free), dict(owned), []
    while free and len(given_) < limit:
        least = min(free, key=lambda run: (counts.get(run.project, 0), run.k))
        if bound is not None and counts.get(least.project, 0) >= bound:
            break
        free.remove(least)
        counts[least.project] = counts.get(least.project, 0) + 1
        given_.append(least)
    return given_


@given(
    st.lists(PROJECTS, max_size=12),
    st.dictionaries(PROJECTS, st.integers(0, 5)),
    st.integers(1, 8),
    st.none() | st.integers(0, 5),
)
def test_a_share_is_what_one_after_another_would_get(projects, owned, limit, bound):
    free = [Free(k, f"run_{k}", project) for k, project in enumerate(projects)]

    assert share(free, owned, limit, bound) == one_after_another(free, owned, limit, bound)


def test_a_claim_from_a_file_goes_by_indexes_alone(tmp_path):
    conn = apsw.Connection(str(tmp_path / "sayso.db"))
    migrate(conn, "sayso.db", released())

    def plan(sql: str) -> list[str]:
        rows = conn.execute(f"explain query plan {sql}", ["x"] * sql.count("?")).fetchall()
        return [row[3] for row in rows]

    for sql, index in (
        (fair._NEXT, "SEARCH runs USING COVERING INDEX runs_free ((project,agent)>(?,?))"),
        (fair._OLDEST, "SEARCH runs USING INDEX runs_free (project=? AND agent=?)"),
        (fair._OWNED, "SEARCH runs USING INDEX runs_owned (project=?)"),
    ):
        assert plan(sql) == [index]
