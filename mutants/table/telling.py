"""Guards of what people are told: notices, cards in chats, links and reminders."""

from __future__ import annotations

from mutants.mutant import Mutant

_SETTLED = "engine/test_settled.py::"
_CARDS = "notify/test_slack.py::"
_CLICKS = "server/test_slack.py::"
_REMIND = "engine/test_remind.py::"
_NOTICES = "engine/test_notices.py::"

MUTANTS = (
    Mutant(
        name="who was not told of it is not told when a decision is taken back",
        file="engine/courier.py",
        old='        if found is not None and found.row.status == "decided":',
        new="        if False:",
        test=_NOTICES
        + "test_who_was_not_told_before_it_was_decided_is_told_if_that_is_taken_back[memory-True]",
    ),
    Mutant(
        name="a reminder shows a card where nobody was asked",
        file="notify/slack.py",
        old="        await self._ask(hold, hold.approvers)",
        new="        await self._ask(hold, notice.to)",
        test=_CARDS + "test_who_wants_to_be_reminded_is_where_the_card_is_and_nowhere_else",
    ),
    Mutant(
        name="a vote is drawn over the end",
        file="notify/slack.py",
        old="        await self.catch_up(hold, posts)",
        new="        await self.catch_up(hold)",
        test=_CARDS + "test_a_vote_that_is_drawn_after_the_end_does_not_stay",
    ),
    Mutant(
        name="what another run settles is told of",
        file="engine/parcel.py",
        old=" if hold.n not in left and not hold.child]",
        new=" if hold.n not in left]",
        test=_SETTLED + "test_what_another_run_settles_is_nobodys_card[memory]",
    ),
    Mutant(
        name="notices of every kind are told to everybody",
        file="engine/courier.py",
        old="        if _told_as(parcel) not in self._kinds:",
        new="        if False:",
        test=_SETTLED + "test_a_parcel_that_nobody_here_tells_goes_to_the_dead[memory]",
    ),
    Mutant(
        name="processes that tell nobody do not know that others do",
        file="wired.py",
        old="kinds_of(self._notify) | await read_word(store)",
        new="kinds_of(self._notify)",
        test=_SETTLED + "test_what_was_decided_where_nobody_tells_is_told_all_the_same[memory]",
    ),
    Mutant(
        name="word that somebody tells is believed for ever",
        file="engine/wanted.py",
        old="if said.get(kind, since) > since)",
        new="if kind in said)",
        test=_SETTLED + "test_word_that_somebody_tells_is_believed_for_a_while[memory]",
    ),
    Mutant(
        name="a card has a yes for what it does not show",
        file="notify/slack_card.py",
        old='        return frozenset({"reject"}) if hidden else frozenset({"approve", "reject"})',
        new='        return frozenset({"approve", "reject"})',
        test=_CARDS + "test_what_a_card_has_buttons_for[script0-rule0-found0-1 more are not shown]",
    ),
    Mutant(
        name="a critical call is approved in a chat",
        file="notify/slack_card.py",
        old=' or hold.risk == "critical" or',
        new=" or",
        test=_CLICKS + "test_what_has_no_button_cannot_be_clicked[rule0]",
    ),
    Mutant(
        name="a chat reads markup in what anybody wrote",
        file="notify/slack_card.py",
        old='    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")',
        new="    return text",
        test=_CARDS
        + "test_what_a_card_has_buttons_for[script1-rule1-found1-&lt;!channel&gt; &amp;]",
    ),
    Mutant(
        name="a card posted too late keeps its buttons",
        file="notify/slack.py",
        old="        await self.catch_up(hold)",
        new="        pass",
        test=_CARDS + "test_a_card_posted_while_its_hold_was_settled_has_no_buttons_in_the_end",
    ),
    Mutant(
        name="a card is drawn of another project's",
        file="notify/slack.py",
        old="        if hold.project != self._project:",
        new="        if False:",
        test=_CARDS + "test_holds_of_another_project_have_no_cards",
    ),
    Mutant(
        name="a click need not be signed",
        file="server/slack.py",
        old='        if not slack.is_ours(body, stamp, headers.get("x-slack-signature", "")):',
        new="        if False:",
        test=_CLICKS + "test_what_slack_has_not_signed_is_refused",
    ),
    Mutant(
        name="a click is signed at any time",
        file="notify/slack.py",
        old="clock=_Clock(self._open))",
        new="clock=type('', (), {'now': lambda _: int(timestamp)})())",
        test=_CLICKS + "test_what_is_too_old_or_too_new_is_refused[301]",
    ),
    Mutant(
        name="a click comes from any workspace",
        file="server/slack.py",
        old="    if user is None or found.team is None or found.team.id != team:",
        new="    if user is None:",
        test=_CLICKS + "test_what_is_of_another_workspace_is_refused[changed1]",
    ),
    Mutant(
        name="a guest of another workspace clicks",
        file="server/slack.py",
        old="    if user.team_id is not None and user.team_id != team:",
        new="    if False:",
        test=_CLICKS + "test_what_is_of_another_workspace_is_refused[changed3]",
    ),
    Mutant(
        name="whoever clicks is taken at their id",
        file="notify/slack.py",
        old="        return None if found is None else Principal(id=found.id)",
        new='        return Principal(id=f"slack:{user}" if found is None else found.id)',
        test=_CLICKS
        + "test_whoever_is_not_asked_is_told_so_alone_and_it_keeps_waiting[approve-U9-linked]",
    ),
    Mutant(
        name="a click decides whatever the card showed",
        file="server/slack.py",
        old="digest=click.value.seen, key",
        new="digest=hold.digest, key",
        test=_CLICKS + "test_a_card_of_an_older_version_decides_nothing",
    ),
    Mutant(
        name="a click that comes again counts again",
        file="server/slack.py",
        old=" key=click.key, channel=CHANNEL",
        new=" channel=CHANNEL",
        test=_CLICKS + "test_the_same_click_twice_decides_once",
    ),
    Mutant(
        name="a click is answered after the work",
        file="server/slack.py",
        old="        return Response(background=work, headers=PRIVATE)",
        new="        if work is not None:\n            await work()\n        return Response()",
        test=_CLICKS + "test_the_answer_comes_before_the_work",
    ),
    Mutant(
        name="whom a hold does not ask is told of it later",
        file="engine/remind.py",
        old='    if who.by.kind != "person" or await asked(parts, found, who) is None:',
        new="    if False:",
        test=_REMIND + "test_only_whom_it_asks_is_told_again[memory]",
    ),
    Mutant(
        name="whom a hold does not ask any more is told of it",
        file="engine/courier.py",
        old="            if await asked(self._parts, found, who) is None:",
        new="            if False:",
        test=_REMIND + "test_nobody_is_told_again_of_what_does_not_ask_them[memory-handed]",
    ),
    Mutant(
        name="everybody is told what one person put off",
        file="engine/courier.py",
        old='            to=(f"user:{slip.to}",) if slip.to else view.approvers,',
        new="            to=view.approvers,",
        test=_REMIND + "test_who_wants_to_be_told_again_is_and_nobody_else[memory]",
    ),
    Mutant(
        name="something is put off past its deadline",
        file="engine/remind.py",
        old="    if found.row.deadline is not None and found.row.deadline <= at:",
        new="    if False:",
        test=_REMIND + "test_the_deadline_keeps_running[memory]",
    ),
    Mutant(
        name="what is decided is put off",
        file="engine/remind.py",
        old='    if found.row.status != "open":',
        new="    if False:",
        test=_REMIND + "test_what_is_decided_is_not_put_off[memory]",
    ),
    Mutant(
        name="the outbox says what an error said",
        file="server/outbox.py",
        old='        error=one.error.partition(":")[0] or None,',
        new="        error=one.error or None,",
        test="server/test_outbox.py::test_the_outbox_says_nothing_secret_and_nothing_of_arguments",
    ),
    Mutant(
        name="the outbox of another project is tried again",
        file="server/outbox.py",
        old="revive(parcel_id, project=caller.project)",
        new="revive(parcel_id)",
        test="server/test_outbox.py::test_the_outbox_is_for_operators_of_its_project",
    ),
)
