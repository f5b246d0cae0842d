import asyncio
import base64
import os
import pickle
import subprocess
import sys
import threading

import pytest

from sayso.errors import BadKeys
from sayso.store.keyring import KeyRing, new_key


def ring(*keys):
    return KeyRing.load(env={"SAYSO_KEYS": ",".join(keys)})


def test_a_signature_is_good_for_its_data_and_purpose_alone():
    keys = ring(new_key())

    signature = keys.sign("link", b"hold_1")

    assert keys.verify("link", b"hold_1", signature)
    assert not keys.verify("link", b"hold_2", signature)
    assert not keys.verify("seal", b"hold_1", signature)
    assert not ring(new_key()).verify("link", b"hold_1", signature)


def test_what_is_derived_depends_on_the_key_the_purpose_and_the_data():
    old, new = new_key(), new_key()
    before, rotated = ring(old), ring(new, old)
    derived = before.derive("pkce", b"a")

    assert len(derived) == 32
    assert derived == before.derive("pkce", b"a")
    assert derived == rotated.derive("pkce", b"a", key_id=old.partition(":")[0])
    assert derived not in {
        before.derive("pkce", b"b"),
        before.derive("other", b"a"),
        rotated.derive("pkce", b"a"),
    }
    assert base64.urlsafe_b64encode(derived).decode()[:-1] not in before.sign("pkce", b"a")
    with pytest.raises(BadKeys, match="does not have the key"):
        before.derive("pkce", b"a", key_id="nobody")


@pytest.mark.parametrize("bad", ["", ".", "k.", "nobody.abc", "x" * 10_000, "ü.ü"])
def test_a_bad_signature_is_refused(bad):
    keys = ring(new_key())
    key_id = keys.sign("link", b"").partition(".")[0]

    assert not keys.verify("link", b"", bad)
    assert not keys.verify("link", b"", f"{key_id}.{bad}")


def test_after_a_rotation_old_keys_still_verify_and_decrypt():
    old, new = new_key(), new_key()
    signature, sealed = ring(old).sign("link", b"x"), ring(old).encrypt("secret", b"x", b"hold_1")
    rotated = ring(new, old)

    assert rotated.verify("link", b"x", signature)
    assert rotated.decrypt("secret", sealed, b"hold_1") == b"x"
    assert rotated.sign("link", b"x").partition(".")[0] == new.partition(":")[0]
    assert not ring(new).verify("link", b"x", signature)
    with pytest.raises(BadKeys, match="no key of this ring"):
        ring(new).decrypt("secret", sealed, b"hold_1")


def test_what_is_encrypted_is_bound_to_its_purpose_and_place():
    keys = ring(new_key())
    sealed = keys.encrypt("secret", b"4111", b"hold_1")

    assert b"4111" not in sealed
    assert keys.decrypt("secret", sealed, b"hold_1") == b"4111"
    assert sealed != keys.encrypt("secret", b"4111", b"hold_1")
    for purpose, data, place in (
        ("other", sealed, b"hold_1"),
        ("secret", sealed, b"hold_2"),
        ("secret", sealed[:-1] + bytes([sealed[-1] ^ 1]), b"hold_1"),
        ("secret", sealed[:14], b"hold_1"),
        ("secret", b"", b"hold_1"),
        ("secret", b"\xff\xfe.x", b"hold_1"),
    ):
        with pytest.raises(BadKeys):
            keys.decrypt(purpose, data, place)


def test_what_is_sealed_is_the_same_each_time_and_bound_to_its_purpose_and_place():
    old, new = new_key(), new_key()
    keys = ring(old)
    token = keys.seal("secret", b"4111", b"run_1")
    key_id, _, text = token.partition(".")

    assert token == keys.seal("secret", b"4111", b"run_1")
    assert keys.unseal("secret", token, b"run_1") == b"4111"
    assert ring(new, old).unseal("secret", token, b"run_1") == b"4111"
    others = [("other", b"4111", b"run_1"), ("secret", b"4112", b"run_1"), ("secret", b"4111", b"")]
    assert len({token, *(keys.seal(*one) for one in others)}) == 4
    for purpose, bad, place in (
        ("other", token, b"run_1"),
        ("secret", token, b"run_2"),
        ("secret", f"{key_id}.{'A' if text[0] != 'A' else 'B'}{text[1:]}", b"run_1"),
        ("secret", token[:-4], b"run_1"),
        ("secret", f"{key_id}.", b"run_1"),
        ("secret", f"{key_id}.?", b"run_1"),
        ("secret", key_id, b"run_1"),
    ):
        with pytest.raises(BadKeys, match="it was changed"):
            keys.unseal(purpose, bad, place)
        assert keys.can_open(bad)
    with pytest.raises(BadKeys, match="no key of this ring"):
        ring(new).unseal("secret", token, b"run_1")
    assert not ring(new).can_open(token)


def test_encryption_without_its_package_says_what_to_install():
    program = f"""
import sys
sys.modules["cryptography"] = None
from sayso.errors import BadKeys
from sayso.store.keyring import KeyRing
keys = KeyRing.load(env={{"SAYSO_KEYS": {new_key()!r}}})
assert keys.verify("a", b"b", keys.sign("a", b"b"))
sealed = keys._current + ".abc"
assert not keys.can_open(sealed)
for attempt in (
    keys.encrypt,
    lambda p, d: keys.decrypt(p, sealed.encode()),
    keys.seal,
    lambda p, d: keys.unseal(p, sealed),
):
    try:
        attempt("a", b"b")
    except BadKeys as error:
        print(error)
"""

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert said.stdout.count("pip install sayso[crypto]") == 4, said.stderr


def test_keys_are_never_shown(tmp_path):
    text = new_key()
    keys = ring(text)
    secret = text.partition(":")[2]

    assert secret not in repr(keys)
    assert secret not in str(keys)
    with pytest.raises(BadKeys):
        pickle.dumps(keys)
    with pytest.raises(BadKeys) as caught:
        ring(f"two words:{secret}")
    assert secret not in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        "k1",
        "k1:",
        ":" + "A" * 43,
        "k1:" + "A" * 42,
        "k1:" + "A" * 44,
        "k 1:" + "A" * 43,
        "k1:" + "*" * 43,
        "k1:" + "A" * 43 + ",k1:" + "B" * 42 + "A",
        ",",
    ],
)
def test_bad_keys_are_refused(bad):
    with pytest.raises(BadKeys, match="SAYSO_KEYS"):
        KeyRing.load(env={"SAYSO_KEYS": bad})


def test_without_a_store_there_must_be_a_variable():
    with pytest.raises(BadKeys, match="SAYSO_KEYS"):
        KeyRing.load(env={})
    with pytest.raises(BadKeys):
        KeyRing({})


def test_the_file_beside_the_store_is_made_once_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "sayso.db.keys"
    before = os.umask(0)
    try:
        first = KeyRing.load(tmp_path / "sayso.db", env={})
    finally:
        os.umask(before)

    second = KeyRing.load(tmp_path / "sayso.db", env={})

    assert path.stat().st_mode & 0o777 == 0o600
    assert second.verify("link", b"x", first.sign("link", b"x"))
    assert [file.name for file in tmp_path.iterdir()] == ["sayso.db.keys"]


def test_a_new_line_in_front_rotates_the_file(tmp_path):
    path = tmp_path / "sayso.db.keys"
    signature = KeyRing.load(tmp_path / "sayso.db", env={}).sign("link", b"x")
    key = new_key()
    path.write_text(f"{key}\n{path.read_text()}")

    rotated = KeyRing.load(tmp_path / "sayso.db", env={})

    assert rotated.verify("link", b"x", signature)
    assert rotated.sign("link", b"x").startswith(key.partition(":")[0])


def test_the_variable_wins_over_the_file(tmp_path):
    key = new_key()

    keys = KeyRing.load(tmp_path / "sayso.db", env={"SAYSO_KEYS": f" {key} ,\n"})

    assert keys.sign("a", b"").startswith(key.partition(":")[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_file_that_others_may_read_is_refused(tmp_path, mode):
    KeyRing.load(tmp_path / "sayso.db", env={})
    (tmp_path / "sayso.db.keys").chmod(mode)

    with pytest.raises(BadKeys, match="chmod 600"):
        KeyRing.load(tmp_path / "sayso.db", env={})


def test_what_is_no_plain_file_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text(new_key())
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "link.keys").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder.keys").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe.keys", 0o600)
    (tmp_path / "empty.keys").touch(0o600)
    (tmp_path / "binary.keys").write_bytes(os.urandom(100))
    (tmp_path / "binary.keys").chmod(0o600)

    for name in ("link", "folder", "pipe", "empty", "binary"):
        with pytest.raises(BadKeys):
            KeyRing.load(tmp_path / name, env={})
    with pytest.raises(BadKeys, match="cannot be made"):
        KeyRing.load(tmp_path / "nowhere" / "sayso.db", env={})


async def test_several_who_need_the_first_key_at_once_get_the_same(tmp_path):
    ready = threading.Barrier(4)

    def load():
        ready.wait()
        return KeyRing.load(tmp_path / "sayso.db", env={}).sign("a", b"b")

    for _ in range(5):
        signatures = await asyncio.gather(*(asyncio.to_thread(load) for _ in range(4)))
        assert len(set(signatures)) == 1
        (tmp_path / "sayso.db.keys").unlink()


def test_a_ring_that_is_only_looked_for_is_not_made(tmp_path):
    with pytest.raises(BadKeys, match="SAYSO_KEYS"):
        KeyRing.load(tmp_path / "sayso.db", {}, make=False)
    assert list(tmp_path.iterdir()) == []

    made = KeyRing.load(tmp_path / "sayso.db", {})

    assert KeyRing.load(tmp_path / "sayso.db", {}, make=False).ids == made.ids


def test_the_current_key_is_the_first():
    assert KeyRing({"b": b"b" * 32, "a": b"a" * 32}).ids == ("b", "a")


def test_seals_without_their_package_say_what_to_install():
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from sayso.store.keyring import KeyRing\n"
        "from sayso.store.seal_key import Signer\n"
        "Signer(KeyRing({'a': bytes(32)}))"
    )

    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert "pip install sayso[crypto]" in said.stderr
