"""Anonymisation: which names and identifiers are replaced, by what, and that nothing else is touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import shared_data
from hypothesis import given, settings
from hypothesis import strategies as st

from carp.data.preparation.entities import Entity, Kind, Recognizer
from carp.data.preparation.identifiers import mask_identifiers
from carp.data.preparation.names import Names
from carp.data.preparation.recognition import SPACY_PIPELINE, HubRecognizer, SpacyRecognizer, make_recognizer
from carp.data.preparation.tagging import TAGGING, reach_of_tagger, tags_of
from carp.data.records import read_records
from carp.errors import InputError


class Given:
    """Finds what it is told, at its first place in every text."""

    def __init__(self, **kinds: Kind) -> None:
        self.kinds = {name.replace("_", " "): kind for name, kind in kinds.items()}

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        return [
            [Entity(m.start(), m.end(), k) for n, k in self.kinds.items() for m in [re.search(re.escape(n), t)] if m]
            for t in texts
        ]


def replaced(*texts: str, **kinds: Kind) -> list[str]:
    names = Names.of(texts, Given(**kinds).entities(texts))
    results = [names.replace(text).text for text in texts]
    assert [names.replace(text).text for text in results] == results
    return results


def anonymised(*texts: str, **kinds: Kind) -> str:
    """The first text."""
    return replaced(*texts, **kinds)[0]


@pytest.fixture(scope="module")
def spacy_recognizer() -> Recognizer:
    pytest.importorskip("spacy", reason="spaCy is not installed")
    pytest.importorskip(SPACY_PIPELINE, reason=f"the pipeline {SPACY_PIPELINE} is not installed")
    return make_recognizer("spacy")


IGNATIUS = "Ignatius J. Reilly sat down. Then Ignatius ate. They knew Mr. Reilly well, and Reilly's cap too."
ANONYMOUS = "John0 sat down. Then John0 ate. They knew Mr. John0 well, and John0's cap too."


def test_one_entity_has_one_name_throughout_a_story_and_its_critiques() -> None:
    story, critique = replaced(IGNATIUS, "IGNATIUS is fat; the Reillys are not.", Ignatius="person")
    assert story == ANONYMOUS
    assert critique == "JOHN0 is fat; the John0s are not."


def test_the_default_recognizer_does_the_same(spacy_recognizer: Recognizer) -> None:
    texts = [IGNATIUS, "I like Ignatius."]
    names = Names.of(texts, spacy_recognizer.entities(texts))
    assert names.replace(texts[0]).text == ANONYMOUS
    assert names.replace("I like Ignatius.") == ("I like John0.", 1)
    assert names.mapping["Ignatius J. Reilly"] == names.mapping["Ignatius"] == "John0"


def test_names_of_all_shapes_are_recognised(spacy_recognizer: Recognizer) -> None:
    story = (
        "Dr. O’Brien met Jean-Luc Picard and José Núñez. Anne-Marie van der Berg waited.\n\n# A Day of Kaelith\n\n"
        "“Run!” cried **Kaelith**. Zyra’s sword shone. The Reillys and James' dog slept, as Reilly and Zyra knew. "
        "CAPTAIN MARLOWE shouted. “Marlowe!” They left for Eldergrove on Monday with a French friend."
    )
    texts = [story, "Zyras plan is odd. I like kaelith."]
    names = Names.of(texts, spacy_recognizer.entities(texts))
    left = names.replace(story).text
    words = "Brien Jean Luc Picard Jos Núñez Anne Marie van Berg Kaelith Zyra Reilly James Marlowe Eldergrove"
    assert not re.search(rf"(?:{words.replace(' ', '|')})(?!\d)", left, re.IGNORECASE)
    assert left.startswith("Dr. ")
    assert left.endswith("on Monday with a French friend.")
    assert re.match(r"[A-Z][a-z]+\d+s plan is odd", names.replace(texts[1]).text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So O’Brien met O'Brien's aunt.", "So John0 met John0's aunt."),
        ("We met Jean-Luc; then Jean‑Luc left.", "We met John0; then John0 left."),
        ("We met José and Jose\u0301 and Jose.", "We met John0 and John0 and John0."),
        ("We met Anne van der Berg. Where was van der Berg?", "We met John0. Where was John0?"),
        ("We saw James' hat and James’s coat.", "We saw John0' hat and John0’s coat."),
        ("We asked **Kaelith** and _Kaelith_ and Kaelith.", "We asked **John0** and _John0_ and John0."),
        ("He saw Kaelith. Kaelith, KAELITH'S bow.", "He saw John0. John0, JOHN0'S bow."),
        ("He saw Ann. Annabel, planning an Annual, ran.", "He saw John0. Annabel, planning an Sam1, ran."),
        ("The J. R. Kaelith and a J.R. Kaelith.", "The John0 and a John0."),
        ("Dr. Kaelith met Captain Zyra.", "Dr. John0 met Captain Sam1."),
        ("He saw John Smith, Mary Smith and the Smiths.", "He saw John0, Sam1 and the Alex2s."),
        ("On Monday the French I met spoke English, by God.", "On Monday the French I met spoke English, by God."),
        ("And so they slept. Slowly it rained.", "And so they slept. Slowly it rained."),
        ("[quote] met Kaelith [user].", "[quote] met John0 [user]."),
        ("", ""),
    ],
)
def test_what_is_replaced(text: str, expected: str) -> None:
    assert anonymised(text) == expected


def test_kinds_have_names_and_numbers_of_their_own() -> None:
    text = "So Zyra went from Kael to Arda with the Vorn and read Silmar of Zyra and Bree."
    expected = "So John0 went from Sam1 to Place0 with the Group0 and read Work0 of John0 and Alex2."
    assert anonymised(text, Zyra="person", Arda="place", Vorn="group", Silmar="work", Bree="person") == expected


def test_words_that_are_also_names_are_replaced_where_they_are_names() -> None:
    story = "Will went home. I will ask Will. Will you? Nobody will. And then Will will."
    expected = "John0 went home. I will ask John0. Will you? Nobody will. And then John0 will."
    assert anonymised(story, Will="person") == expected
    month = "May came. In May it may rain, as May knew."
    assert anonymised(month, "It may.") == month
    assert anonymised("We met Rose. Rose slept, for she rose at six.", Rose="person").startswith("We met John0.")


def test_a_name_found_in_one_text_is_replaced_in_all_and_in_their_parts() -> None:
    texts = ["Zyra ran.", "I saw Zyra there."]
    names = Names.of(texts, [[], []])
    assert names.replace("Zyra ran.").text == "John0 ran."
    assert names.replace("[quote] of Zyra's").text == "[quote] of John0's"


def test_critics_who_write_names_in_lower_case() -> None:
    story = "We met Kaelith. Then Kaelith slept, and Kaelith woke."
    texts = [story, "i liked how kaelith slept", "Here Kaelith is a kaelith."]
    entities = [[Entity(m.start(), m.end(), "person") for m in re.finditer("Kaelith", text)] for text in texts]
    names = Names.of(texts, entities)
    assert names.replace(texts[1]).text == "i liked how john0 slept"
    assert names.replace(texts[2]).text == "Here John0 is a kaelith."


def test_suspects_have_context() -> None:
    story = "x" * 60 + " the Captain saw the Tower of a tower, and " + "y" * 60
    names = Names.of([story], [[]])
    (suspect,) = names.suspects(story)
    assert (suspect.word, story[suspect.start : suspect.end]) == ("Tower", "Tower")
    assert suspect.context == story[suspect.start - 40 : suspect.end + 40]


def test_a_list_of_entities_is_needed_for_every_text() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Names.of(["a", "b"], [[]])


PIECES = "Ignatius Reilly reilly Will will J. van O’Brien JAMES James' the a [quote] José John0 Place3s Jean-Luc slept"
PIECES += " [user] Élan's The New York ’s İ ß 猫 Thing2"
MARKS = [" ", " ", " ", " ", ". ", ", ", "\n", "-", ' "', "” ", "**", "—", "'", "’", "_", ": ", ""]
TEXTS = st.lists(st.sampled_from(PIECES.split() + MARKS), max_size=50).map("".join)


@settings(max_examples=400)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_replacing_twice_changes_nothing_and_masks_stay(texts: list[str], data: st.DataObject) -> None:
    kinds = st.sampled_from(["person", "place", "other"])
    words = [[m.span() for m in re.finditer(r"[^\W\d_]+(?: [^\W\d_]+)?", text)] for text in texts]
    entities = [[Entity(*s, data.draw(kinds)) for s in spans if data.draw(st.booleans())] for spans in words]
    names = Names.of(texts, entities)
    for text in texts:
        once = names.replace(text)
        assert names.replace(once.text) == (once.text, 0)
        assert re.findall(r"\[\w+\]", once.text) == re.findall(r"\[\w+\]", text)


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_any_text_can_be_anonymised(text: str) -> None:
    names = Names.of([text], [[]])
    once = names.replace(text).text
    assert names.replace(once).text == once
    assert mask_identifiers(mask_identifiers(text).text).text == mask_identifiers(text).text


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["the", "old", "cat", "slept", "on", ".", ",", "[quote]"])).map(" ".join))
def test_texts_without_names_stay(text: str) -> None:
    assert Names.of([text], [[]]).replace(text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Thanks /u/jane_doe, u/x-y and @bob!", "Thanks [user], [user] and [user]!"),
        ("me+x@mail.example.co.uk. Or me@x.org", "[email]. Or [email]"),
        ("see https://x.org/a?b=c#d, (www.y.net) or bit.ly/3xYz.", "see [url], ([url]) or [url]."),
        ("[here](https://x.org/a) *www.x.org* example.com!", "[here]([url]) *[url]* [url]!"),
        ("550e8400-e29b-41d4-a716-446655440000", "[id]"),
        ("commit deadbeef01, d41d8cd98f00b204e9800998ecf8427e, t3_abc12x", "commit [id], [id], [id]"),
        ("order #12345678, call +1 (555) 123-4567, 555-123-4567 or 555-0199", "order [id], call [id], [id] or [id]"),
        ("In 1984 and/or 1990-2000, 3,000,000 of 10000 facades at 12:30: 3.14159265", None),
        ("you/me decade effaced well-known-very-long-hyphenated-word e.g. so.Then [quote] [id]", None),
    ],
)
def test_identifiers(text: str, expected: str | None) -> None:
    masked = mask_identifiers(text)
    assert masked.text == (expected or text)
    assert mask_identifiers(masked.text) == (masked.text, 0)


def test_no_name_of_the_confederacy_is_left(spacy_recognizer: Recognizer) -> None:
    texts = [record["text"] for _, record in read_records(shared_data("confederacy_stories.jsonl.gz"))]
    assert len(texts) == 65
    for text, entities in zip(texts, spacy_recognizer.entities(texts), strict=True):
        left = Names.of([text], [entities]).replace(text).text
        assert not re.search("ignatius|reilly|irene", left, re.IGNORECASE)


def test_what_is_introduced_as_a_name_is_one() -> None:
    story = "A trucker named Crow came. He left with a girl called Rose. A crow likes the rose. It was called off."
    expected = "A trucker named John0 came. He left with a girl called Sam1. A crow likes the rose. It was called off."
    assert anonymised(story) == expected


def test_tags_of_some_words_are_those_of_the_whole_text(spacy_recognizer: Recognizer) -> None:
    import spacy

    nlp = spacy.load(SPACY_PIPELINE, exclude=["ner", "parser", "lemmatizer", "attribute_ruler", "senter"])
    reach = reach_of_tagger(nlp)
    assert reach == 4
    texts = ["Can't Zyra's horse run? Don't ask. " + IGNATIUS, "We  met\n\nBrom in Eldergrove.", "", "Kaelith", "a b"]
    wanted = [[0, 4], [1, 4], [], [0], []]
    docs = list(nlp.pipe(texts, disable=TAGGING))
    whole = [[doc[i].tag_ for i in places] for doc, places in zip(nlp.pipe(texts), wanted, strict=True)]
    asked = zip(docs, wanted, range(5), strict=True)
    assert list(tags_of(nlp, asked, reach, batch_size=2)) == [(tags, i) for i, tags in enumerate(whole)]
    assert reach_of_tagger(spacy.blank("en")) is None
    assert reach_of_tagger(spacy.load(SPACY_PIPELINE)) is None  # the parser listens too


def test_coreference_joins_names_that_share_no_word(spacy_recognizer: Recognizer) -> None:
    from spacy.language import Language
    from spacy.tokens import Doc

    @Language.component("stand_in_coreference")
    def stand_in(doc: Doc) -> Doc:
        spans = [match.span() for match in re.finditer("Ignatius|Fatty|He", doc.text)]
        doc._.coref_clusters = [spans]
        return doc

    if not Doc.has_extension("coref_clusters"):
        Doc.set_extension("coref_clusters", default=None)
    texts = ["They call Ignatius so. But Fatty is what Myrna says. He sighs."]
    recognizer = SpacyRecognizer(coreference="stand_in_coreference")
    names = Names.of(texts, recognizer.entities(texts))
    assert names.mapping["Ignatius"] == names.mapping["Fatty"] != names.mapping["Myrna"]
    assert names.replace(texts[0]).text.endswith(" says. He sighs.")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="spacy:PIPELINE"):
        make_recognizer("nonsense")
    with pytest.raises(InputError, match="nowhere"):
        make_recognizer("hub:/nowhere")
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(InputError, match=re.escape("carp-critic[data]")):
        make_recognizer("spacy")


def test_missing_pipelines_and_components_are_named(spacy_recognizer: Recognizer) -> None:
    with pytest.raises(InputError, match="no_such_pipeline"):
        make_recognizer("spacy:no_such_pipeline")
    with pytest.raises(InputError, match="no_such_component"):
        SpacyRecognizer(coreference="no_such_component")


def test_a_token_classifier_of_the_hub_reads_long_texts_in_windows(tmp_path: Path) -> None:
    import torch
    from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "we", "met", "Zyra", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"), do_lower_case=False).save_pretrained(tmp_path)
    config = BertConfig(
        vocab_size=len(words), hidden_size=len(words), num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    config.max_position_embeddings = 24
    config.id2label = {0: "O", 1: "B-PER"}
    config.label2id = {"O": 0, "B-PER": 1}
    model = BertForTokenClassification(config)
    with torch.no_grad():  # embeddings that pass through: only the word Zyra is a person
        for name, weight in model.named_parameters():
            if "LayerNorm.weight" not in name:
                weight.zero_()
        model.bert.embeddings.word_embeddings.weight.copy_(torch.eye(len(words)))
        model.classifier.bias.copy_(torch.tensor([1.0, 0.0]))
        model.classifier.weight[1, words.index("Zyra")] = 3.0
    model.save_pretrained(tmp_path)
    text = "we met Zyra . " + "we met . " * 60 + "we met Zyra ."
    recognizer = make_recognizer(f"hub:{tmp_path}")
    assert isinstance(recognizer, HubRecognizer)
    found = recognizer.entities([text, "", "we met ."])
    assert [text[entity.start : entity.end] for entity in found[0]] == ["Zyra", "Zyra"]
    assert [entity.kind for entity in found[0]] == ["person", "person"]
    assert found[1:] == [[], []]
