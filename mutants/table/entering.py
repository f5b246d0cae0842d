"""Mutants of signing in to pages: sessions, links, forms of other sites, and a provider's word."""

from __future__ import annotations

from mutants.mutant import Mutant

_IN = "web/test_sign_in.py::"
_ENTER = "web/test_enter.py::"
_SESSION = "web/test_session.py::"
_OIDC = "web/test_oidc.py::"
_PROVIDER = "web/test_provider.py::"

MUTANTS = (
    Mutant(
        name="another site's form is taken",
        file="web/origin.py",
        old="    if origin is not None and origin not in _ours(request):",
        new="    if False and origin is not None:",
        test=_IN + "test_no_other_site_signs_a_browser_in[headers0]",
    ),
    Mutant(
        name="a form that a browser says is another site's is taken",
        file="web/origin.py",
        old='"same-origin") not in ("same-origin", "none"):',
        new='"same-origin") == "never":',
        test=_IN + "test_no_other_site_signs_a_browser_in[headers4]",
    ),
    Mutant(
        name="another site's name that leads here is near",
        file="web/origin.py",
        old='    return peer in LOOPBACK and (_split(_host(request)).hostname or "") in NEAR_NAMES',
        new="    return peer in LOOPBACK",
        test=_ENTER + "test_from_elsewhere_there_is_no_such_link[evil.example-127.0.0.1]",
    ),
    Mutant(
        name="whoever signs in is sent to another site",
        file="web/origin.py",
        old='    if odd or not text.startswith("/") or text.startswith("//"):',
        new='    if odd or not text.startswith("/"):',
        test=_IN + "test_signing_in_leads_to_a_page_of_ours[//evil.example]",
    ),
    Mutant(
        name="a backslash leads to another site",
        file="web/origin.py",
        old='    odd = not text.isprintable() or "\\\\" in text or len(text) > PATH_MAX',
        new="    odd = not text.isprintable() or len(text) > PATH_MAX",
        test=_IN + "test_signing_in_leads_to_a_page_of_ours[/\\\\evil.example]",
    ),
    Mutant(
        name="the form of another browser signs in",
        file="web/before.py",
        old="        if not is_word(self.secret, _FORM, word):",
        new="        if False and not word:",
        test=_IN + "test_the_form_of_another_browser_signs_nobody_in",
    ),
    Mutant(
        name="a form without the word of the session is taken",
        file="web/session.py",
        old="        if not is_word(self.secret, _CSRF, word):",
        new="        if False and not word:",
        test=_IN + "test_signing_out_ends_the_session_where_it_is_kept",
    ),
    Mutant(
        name="signing out leaves the session where it is kept",
        file="web/sign_in.py",
        old="    await Sessions(sayso_of(request).store).end(visitor.session.id)\n",
        new="",
        test=_IN + "test_signing_out_ends_the_session_where_it_is_kept",
    ),
    Mutant(
        name="the session before goes on",
        file="web/session.py",
        old="        await sessions.end(before[0].id)",
        new="        pass",
        test=_IN + "test_the_session_is_new_at_every_sign_in_and_the_one_before_ends",
    ),
    Mutant(
        name="wrong tokens are tried for ever",
        file="web/tries.py",
        old="        return fails >= FAILS_MAX and self._clock() - since < WINDOW_S",
        new="        return False and fails >= FAILS_MAX and self._clock() - since < WINDOW_S",
        test=_IN + "test_too_many_wrong_tokens_have_to_wait",
    ),
    Mutant(
        name="addresses are counted without a bound",
        file="web/tries.py",
        old="        if len(self._fails) > ADDRESSES_MAX:",
        new="        if False:",
        test=_IN + "test_tries_are_counted_for_a_bounded_number_of_addresses",
    ),
    Mutant(
        name="a service signs in to pages",
        file="web/sign_in.py",
        old='    if caller.by.kind != "person":\n',
        new="    if False:\n",
        test=_IN + "test_only_a_person_who_may_look_signs_in[options0]",
    ),
    Mutant(
        name="a link signs in twice",
        file="server/door.py",
        old="        self._used = True\n",
        new="",
        test=_ENTER + "test_the_link_signs_one_browser_in_and_looking_uses_nothing_up",
    ),
    Mutant(
        name="a session of another start of the server is good",
        file="web/session.py",
        old="        if local is None or local.id != session.ref or not is_near(request):",
        new="        if local is None or not is_near(request):",
        test=_ENTER + "test_a_session_of_this_machine_ends_with_the_server",
    ),
    Mutant(
        name="a session of this machine is good from afar",
        file="web/session.py",
        old="        if local is None or local.id != session.ref or not is_near(request):",
        new="        if local is None or local.id != session.ref:",
        test=_ENTER + "test_a_session_of_this_machine_is_good_on_it_alone",
    ),
    Mutant(
        name="a session outlives its token",
        file="web/session.py",
        old='    elif session.via != "token" or not await Tokens(app.store).is_good(session.ref):',
        new='    elif session.via != "token":',
        test=_SESSION + "test_a_session_ends_when_its_token_is_revoked",
    ),
    Mutant(
        name="whoever is put out stays in",
        file="web/session.py",
        old="    if not (await app.people.authority(session.project, session.by)).active:",
        new="    if False:",
        test=_SESSION + "test_a_session_ends_when_its_person_is_put_out",
    ),
    Mutant(
        name="a session outlives its time",
        file="web/session.py",
        old=" if same and self._store.now() < session.until else None",
        new=" if same else None",
        test=_SESSION + "test_a_session_is_good_for_a_week_and_not_longer_than_its_credential",
    ),
    Mutant(
        name="any secret opens a session",
        file="web/session.py",
        old=" if same and self._store.now() < session.until else None",
        new=" if self._store.now() < session.until else None",
        test=_SESSION + "test_what_is_no_cookie_of_ours_is_no_session[x]",
    ),
    Mutant(
        name="somebody else's session is ended",
        file="web/session_list.py",
        old="    if name not in {one.id for one in await sessions.list(visitor.caller)}:",
        new="    if not name:",
        test=_SESSION + "test_one_ends_ones_own_sessions_and_nobody_elses",
    ),
    Mutant(
        name="a token of another sign-in signs in",
        file="web/oidc.py",
        old='            raise Unauthenticated("this token is of another sign-in")',
        new="            pass",
        test=_OIDC + "test_a_token_that_is_not_good_signs_nobody_in",
    ),
    Mutant(
        name="a token of another party signs in",
        file="web/oidc.py",
        old="        if party != self._client_id:",
        new="        if False and party:",
        test=_OIDC + "test_a_token_that_is_not_good_signs_nobody_in",
    ),
    Mutant(
        name="another browser finishes a sign-in",
        file="web/oidc.py",
        old='    if not hmac.compare_digest(signed, before.sign(f"oidc.state.{body}")):',
        new="    if False and signed:",
        test=_OIDC + "test_what_one_browser_has_begun_no_other_can_finish",
    ),
    Mutant(
        name="a sign-in is finished at any time",
        file="web/oidc.py",
        old="not -SKEW_S <= now_s - int(read[1]) <= AGE_MAX_S",
        new="False",
        test=_OIDC + "test_a_state_is_good_for_ten_minutes_in_its_own_browser",
    ),
    Mutant(
        name="another issuer's answer is taken",
        file="web/oidc.py",
        old="        if named and iss != self._issuer.url:",
        new="        if False and named:",
        test=_OIDC + "test_an_answer_of_another_issuer_is_refused",
    ),
    Mutant(
        name="an address that nobody has verified names a person",
        file="server/issuer.py",
        old=' and claims.get("email_verified") is not True:',
        new=" and False:",
        test=_OIDC + "test_an_address_names_somebody_only_if_it_is_verified",
    ),
    Mutant(
        name="an issuer is taken by another name",
        file="server/issuer.py",
        old="            if about.issuer != self._issuer:",
        new="            if False:",
        test=_OIDC + "test_an_issuer_that_says_odd_things_of_itself_is_not_used[about0]",
    ),
    Mutant(
        name="somebody comes back from a provider for somebody else",
        file="web/provider.py",
        old="code, by=caller.by, iss=iss",
        new="code, iss=iss",
        test=_PROVIDER + "test_nobody_comes_back_for_somebody_else",
    ),
    Mutant(
        name="a credential that only reads is sent to a provider",
        file="web/provider.py",
        old='    caller.need("decide")\n    hold = await caller.window',
        new="    hold = await caller.window",
        test=_PROVIDER + "test_a_credential_that_may_not_decide_is_not_sent",
    ),
)
