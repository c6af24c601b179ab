"""MO-06, point 2: a padding token that the protocol chose is said in the note, in every language; nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.evidence.campaign import Campaign
from runner.note.build import note_markdown
from tests.note.sample import PRICED, make_campaign

ROW = {"en": "Padding token", "de": "Auffüll-Token", "tr": "Dolgu token’ı", "fr": "Token de remplissage"}
EOS = {
    "en": "the end-of-text token (eos), chosen in the protocol",
    "de": "das Token für das Textende (eos), im Protokoll so gewählt",
    "tr": "metin sonu token’ı (eos), protokolde seçildi",
    "fr": "le token de fin de texte (eos), choisi dans le protocole",
}


def choose(campaign: Campaign, token: str) -> None:
    """The protocol of the sample with this padding token."""
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(text.replace("[model]", f'[model]\npad_token = "{token}"', 1), encoding="utf-8")


@pytest.mark.parametrize("language", list(ROW))
def test_mo06_a_chosen_padding_token_is_in_the_note(tmp_path: Path, language: str) -> None:
    """MO-06: `pad_token: eos` is a row of the frozen values; without the choice there is no such row."""
    campaign = make_campaign(tmp_path / "c", PRICED)
    assert ROW[language] not in note_markdown(campaign, language)
    choose(campaign, "eos")
    assert f"| {ROW[language]} | {EOS[language]} |" in note_markdown(campaign, language)


def test_mo06_a_token_of_another_name_is_shown_literally(tmp_path: Path) -> None:
    """MO-06, NO-01: the text of the token is not ours: quoted and escaped."""
    campaign = make_campaign(tmp_path / "c", PRICED)
    choose(campaign, "[PAD]<b>")
    text = note_markdown(campaign, "en")
    (row,) = [line for line in text.splitlines() if line.startswith("| Padding token |")]
    assert row == "| Padding token | “\\[PAD\\]\\<b\\>”, chosen in the protocol |"
