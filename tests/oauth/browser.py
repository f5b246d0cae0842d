"""A person's browser at the provider, and Sayso as the provider knows it."""

import secrets
from urllib.parse import parse_qs, urlsplit

import httpx2

from sayso.agents.oauth import OAuthClient
from sayso.agents.oauth_provider import OAuthProvider
from sayso.store.keyring import KeyRing, new_key

BACK = "http://localhost:1/back"
NOW = 1_700_000_000_000


class Site:
    """Makes clients, and does in a browser what a person does there."""

    def __init__(self, server, user):
        self.server = server
        self.user = user
        self.keys = KeyRing.load(env={"SAYSO_KEYS": new_key()})

    def register(self, back, secret="s3cret-of-sayso", client_id=None):
        """Register Sayso, and give its id and its secret."""
        client_id = client_id or f"sayso-{secrets.token_hex(4)}"
        registered = self.server.models.Client(
            client_id=client_id,
            client_secret=secret or "",
            client_name="Sayso",
            # A name that it does not trust: it asks for consent.
            client_uri="https://agent.example",
            redirect_uris=[back],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
            scope=["openid", "profile", "email"],
        )
        self.server.backend.save(registered)
        # Whom its ID tokens are for.
        registered.audience = [registered]
        self.server.backend.save(registered)
        return client_id, secret

    def client(self, *, secret="s3cret-of-sayso", **changes):
        """Register Sayso and make a client of it."""
        client_id, _ = self.register(BACK, secret)
        return OAuthClient(
            OAuthProvider(
                "iam",
                authorize_url=f"{self.server.url}oauth/authorize",
                token_url=f"{self.server.url}oauth/token",
                client_id=client_id,
                redirect_url=BACK,
                issuer=self.server.url.rstrip("/"),
                **{"client_secret": secret, "scopes": ["openid", "profile"], **changes},
            ),
            self.keys,
        )

    def sign_in(self, url, *, answer="accept"):
        """Follow a link, answer the consent page, and give what comes back to Sayso.

        Use the code before the next one is asked for: in memory this provider mixes two codes of
        one client up.
        """
        with httpx2.Client(trust_env=False) as browser:
            gone = page = browser.get(url)
            # Who has consented to the very same before is not asked again.
            if page.status_code != 302:
                assert page.status_code == 200, page.headers
                assert "authorizeform" in page.text
                gone = browser.post(url, data={"answer": answer})
        assert gone.headers["location"].startswith(BACK)
        found = parse_qs(urlsplit(gone.headers["location"]).query)
        return {name: values[0] for name, values in found.items()}

    def userinfo(self, credential):
        """Use a credential for what it is for."""
        return self.who(credential.access_token)

    def who(self, token):
        """Ask the provider whose token this is."""
        return httpx2.get(
            f"{self.server.url}oauth/userinfo",
            headers={"authorization": f"Bearer {token}"},
            trust_env=False,
        )
