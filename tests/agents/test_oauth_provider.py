import pytest

from sayso.agents.oauth_provider import SCOPES_MAX, OAuthProvider
from sayso.errors import BadProvider

GOOD = {
    "authorize_url": "https://id.example/authorize",
    "token_url": "https://id.example/token",
    "client_id": "sayso",
    "client_secret": "hunter2-hunter2",
    "redirect_url": "https://agent.example/back",
}


def made(name="github", **changes):
    return OAuthProvider(name, **{**GOOD, **changes})


def test_its_repr_never_shows_the_secret():
    provider = made()

    assert repr(provider) == str(provider) == "<provider 'github' at id.example>"


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example",
        "https://id.example:8443/a?b=c",
        "http://localhost:8000/back",
        "http://LOCALHOST/back",
        "http://127.0.0.1:1/",
        "http://127.8.8.8/",
        "http://[::1]:9/",
    ],
)
def test_https_and_this_machine_are_fine(url):
    for what in ("authorize_url", "token_url", "redirect_url", "issuer"):
        assert getattr(made(**{what: url}), what) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "id.example/authorize",
        "//id.example/authorize",
        "https://",
        "https:///path",
        "https://:443/",
        "http://id.example/authorize",
        "http://localhost.evil.example/",
        "http://localhost@evil.example/",
        "http://evil.example\\@localhost/",
        "http://127.0.0.1.evil.example/",
        "http://0.0.0.0/",
        "http://10.0.0.1/",
        "https://user@id.example/",
        "https://user:pass@id.example/",
        "https://id.example/#part",
        "https://id.example/#",
        "https://id.example:http/",
        "https://id.example:99999/",
        "https://[::1/",
        "https://id.example/a b",
        "https://id.example/\n",
        "https://id.exämple/",
        "ftp://localhost/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://id.example/" + "a" * 3000,
        None,
        b"https://id.example",
    ],
)
def test_an_address_that_tokens_should_not_travel_to_is_refused(url):
    for what in ("authorize_url", "token_url", "redirect_url"):
        with pytest.raises(BadProvider, match=what):
            made(**{what: url})
    if url is not None:
        with pytest.raises(BadProvider, match="issuer"):
            made(issuer=url)


@pytest.mark.parametrize("name", ["", "a/b", "a b", "ü", "a" * 65, None, "a\n"])
def test_a_bad_name_is_refused(name):
    with pytest.raises(BadProvider, match="name"):
        made(name)


@pytest.mark.parametrize("text", ["", "hunter2\n", 7, "hunter2" * 1000, b"hunter2"])
def test_bad_ids_and_secrets_are_refused_and_not_shown(text):
    for what in ("client_id", "client_secret"):
        with pytest.raises(BadProvider, match=what) as caught:
            made(**{what: text})
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "scopes", ["openid profile", ["a b"], [""], ['a"b'], ["ü"], [7], ["a\n"], ["a" * 300]]
)
def test_bad_scopes_are_refused(scopes):
    with pytest.raises(BadProvider, match="scope"):
        made(scopes=scopes)


def test_scopes_are_kept_once_and_bounded():
    assert made(scopes=["b", "a", "b"]).scopes == ("b", "a")
    with pytest.raises(BadProvider, match="too many"):
        made(scopes=[f"s{n}" for n in range(SCOPES_MAX + 1)])


@pytest.mark.parametrize("name", ["state", "code_challenge_method", "redirect_uri", "nonce"])
def test_what_keeps_a_sign_in_safe_cannot_be_set(name):
    with pytest.raises(BadProvider, match=name):
        made(extra={name: "plain"})
    with pytest.raises(BadProvider, match=name):
        made(authorize_url=f"https://id.example/authorize?a=b&{name}=plain")


@pytest.mark.parametrize("extra", [{"": "a"}, {"a": ""}, {"a": 7}, {7: "a"}, {"a": "b\n"}])
def test_bad_parameters_are_refused(extra):
    with pytest.raises(BadProvider, match="parameter"):
        made(extra=extra)


def test_parameters_are_not_those_of_the_callers_dictionary():
    extra = {"prompt": "consent"}
    provider = made(extra=extra)
    extra["state"] = "mine"

    assert dict(provider.extra) == {"prompt": "consent"}
