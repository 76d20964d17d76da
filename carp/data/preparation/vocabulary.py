"""Word lists of the anonymisation: what is never a name, what may be one, and the generic names."""

from __future__ import annotations

import re


def words(*lists: str) -> frozenset[str]:
    """The words of texts."""
    return frozenset(word for text in lists for word in text.split())


# fmt: off
PERSONS = [
    "John", "Sam", "Alex", "Mary", "Robin", "James", "Anna", "Chris", "Peter", "Emma", "Jamie", "Paul", "Laura", "Lee",
    "Tom", "Kate", "Max", "Julia", "Pat", "Ben", "Nina", "Kim", "David", "Sarah", "Taylor", "Mike", "Lucy", "Jordan",
    "Adam", "Ruth", "Casey", "Simon", "Alice", "Quinn", "Mark", "Helen", "Avery", "Luke", "Clara", "Morgan",
]
# fmt: on
GENERIC = re.compile(rf"(?:{'|'.join(PERSONS)}|Place|Group|Work|Thing)\d+(?:e?s)?", re.IGNORECASE)

PARTICLES = words("van der den ter von zu de del della di du da dos das do la le el al bin ibn ben af av of the y")

# Kept in front of a name ("Mr. John0"), never a name alone.
TITLES = words(
    "mr mrs ms miss mx dr prof professor doctor sir madam madame ma'am lord lady master mistress king queen prince",
    "princess duke duchess baron baroness count countess earl emperor empress captain capt commander cmdr lieutenant",
    "lt sergeant sgt colonel col general gen major corporal private admiral officer detective inspector agent sheriff",
    "deputy chief president senator governor mayor minister judge justice reverend rev father fr brother sister",
    "mother pope bishop archbishop cardinal rabbi imam saint st monsieur mademoiselle señor señora señorita signor",
    "signora herr frau uncle aunt auntie cousin grandma grandpa granny nana grandfather grandmother mom mum mama",
    "momma dad daddy mommy mummy papa pa ma son nurse coach director researcher scientist engineer ambassador",
    "chancellor constable superintendent headmaster headmistress principal elder magistrate secretary jr sr phd esq",
    "boss sire highness majesty lordship ladyship honor honour excellency grace's knight squire marshal pilot",
    "navigator",
)

# Not identifying: calendar, nationalities and languages, religions, numerals, kinds of text, interjections.
_CALENDAR = """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
saturdays sundays january february march april may june july august september october november december jan feb mar
apr jun jul aug sep sept oct nov dec christmas easter halloween thanksgiving hanukkah ramadan diwali new year eve
valentine valentines am pm a.m p.m bc ad bce ce gmt utc"""
_PEOPLES = """american americans british english englishman englishmen englishwoman french frenchman frenchmen german
germans italian italians spanish spaniard irish irishman scottish scots scotsman welsh dutch danish swedish norwegian
finnish polish russian russians ukrainian czech hungarian romanian bulgarian greek greeks turkish turks roman romans
latin arabic arab arabs israeli jewish jew jews hebrew yiddish persian iranian iraqi indian indians hindi pakistani
chinese japanese korean koreans vietnamese thai asian asians african africans european europeans mexican mexicans
cuban brazilian portuguese canadian canadians australian australians egyptian moroccan nigerian ethiopian kenyan
caribbean hawaiian austrian swiss belgian slavic nordic scandinavian celtic gaelic viking vikings victorian edwardian
elizabethan georgian shakespearean dickensian kafkaesque lovecraftian byronic freudian orwellian socratic medieval
renaissance gothic baroque hispanic latino latina catholic catholics protestant christian christians christianity
muslim muslims islam islamic islamist buddhist buddhism hindu hinduism anglican baptist methodist puritan pagan bible
biblical quran koran torah god gods lord's jesus christ allah satan devil heaven hell earth moon sun western eastern
northern southern westerner north south east west northeast northwest southeast southwest internet web wifi"""
_WRITING = """ai ok okay tv tvs dvd cd usb gps pc hq id dna lol wow ya yas uh um hmm hm mmm ah oh ooh ugh huh hey hi
hello yes yeah yep no nope nah please thanks thank sorry goodbye bye ha haha aha damn shit fuck fucking well so pov
poV sf scifi sci-fi fi sci fantasy romance horror thriller mystery noir cyberpunk steampunk solarpunk spacepunk
chapter chapters part act scene scenes prologue epilogue interlude volume book story stories title author narrator
draft prompt response piece item object class level section log entry page note notes warning subject description
procedures addendum report date time location summary analysis overall strengths weaknesses pros cons conclusion
introduction dialogue characters plot pacing setting themes style tone voice prose cut fade int ext end fin continued
deus ex machina vs etc ie eg nb ps dearest dear classic home dude science special standard document site initial
incident remember mary-sue mcguffin chekhov's i'm i've i'd i'll i ii iii iv v vi vii viii ix x xi xii xiii xiv xv"""
_NUMBERS = """one two three four five six seven eight nine ten eleven twelve thirteen fifteen twenty thirty forty
fifty sixty hundred thousand million first second third fourth fifth sixth seventh eighth ninth tenth last next once
twice"""
_FUNCTION = """the a an this that these those there here it its he she him her his hers they them their theirs we us
our ours you your yours me my mine myself yourself himself herself itself themselves who whom whose which what when
where why how and or but nor for yet if then else than as because since although though while until unless whether
before after during without within with from into onto upon over under above below between among through across
against along around behind beside beneath beyond near off on out up down in at by to of about like despite is am are
was were be been being do does did don't done doing have has had having can can't could couldn't should shouldn't
would wouldn't won't will might must shall not never ever always often sometimes usually maybe perhaps just only even
still again also too very much more most less least some any all both each every either neither none nothing
something anything everything someone anyone everyone nobody everybody somebody anybody somewhere nowhere other
another such same own few many several now soon later today tonight tomorrow yesterday suddenly finally eventually
instead meanwhile however therefore thus hence indeed otherwise besides moreover furthermore additionally
nevertheless nonetheless actually really certainly clearly unfortunately fortunately similarly specifically
especially particularly ultimately initially slowly quickly gently carefully quietly let lets let's go going gone get
got come came look looked listen wait stop run take give make tell say says said ask asked think thought know knew
see saw seen feel felt want need try keep put leave left turn turned good bad great right wrong old young big little
long short high low true false real sure fine dear whatever whoever whenever wherever nothing's that's there's it's
he's she's what's who's where's isn't wasn't doesn't didn't aren't weren't hasn't haven't hadn't ain't lest amid atop
once upon regarding given considering based using rather quite almost already apart aside far further enough half
inside outside past per plus together towards toward via"""
PEOPLES = words(_PEOPLES)
KEPT = PEOPLES | words(_CALENDAR, _WRITING, _NUMBERS, _FUNCTION) | TITLES

# Names and words at once: names only where a recogniser has found one.
AMBIGUOUS = words(
    "will may mark rose grace hope faith joy art bill jack frank grant drew rob sue penny ruby pearl iris lily daisy",
    "ivy hazel violet heather holly summer autumn april june august dawn eve gene guy herb jean lance max miles nick",
    "norm peg pierce ray reed rich robin rocky sandy scarlet skip star stone sunny tony van victor wade ward wren",
    "sage raven chance chase colt dean dale glen cliff clay ash forest river sky storm hunter archer mason cooper",
    "baker taylor carter parker porter turner walker fisher gardener potter smith cook butler wolf fox bear swan hawk",
    "crow bishop king prince pope major duke earl destiny harmony melody liberty justice patience prudence charity",
    "mercy constance crystal amber jade opal gem jewel olive ginger basil rosemary angel christian dusty woody buddy",
    "buck bob pat drake finch gale jasmine laurel myrtle flora fern clover poppy willow birch rowan echo ember blaze",
    "phoenix nova luna grit nettle nets flint slate steel silver gold copper rusty shade shadow ghost whisper thorn",
    "bramble moss hollow march mai carol rusty happy spike stone sterling trace trip tripp lane brook brooks ford",
    "wells banks woods fields hill hills young long short small little black white brown green gray grey blue reed",
    "best love moody strange sharp",
)
INTRODUCING = words("named called nicknamed")
COMMON_NOUNS = words(  # parts of names that are none alone
    "street road avenue lane square park bridge river lake mountain mountains mount hill hills valley forest woods",
    "wood island islands bay beach city town village house hall castle tower palace church cathedral temple hotel inn",
    "tavern bar cafe café restaurant shop store market station airport harbor harbour port hospital school university",
    "college academy library museum institute center centre building street's company corporation corp inc ltd co",
    "foundation council committee department ministry bureau agency army navy guard force team club society",
    "association union party church order brotherhood guild clan tribe family empire kingdom republic nation state",
    "states world worlds sea ocean gulf desert plains county district quarter sector station ship fountain garden",
    "gardens great new upper lower old little big north south east west grand royal high point peak pass gate creek",
    "falls springs ridge cave",
)
VERBS = words(  # what people do at the beginning of a sentence, beside verbs in -ed
    "said says asked asks is was isn't wasn't has had did didn't does doesn't looks thought thinks knew knows felt",
    "feels saw sees went goes came comes got gets took takes gave gives made makes stood stands sat sits ran runs",
    "left smiles nods laughs sighs spoke speaks told tells heard found held began begins kept shook rose fell let put",
    "turns",
)
