"""The exchanges of `toy-dialogue`: questions, remarks, and answers that fit them.

An exchange is some openings (?) and some responses (>); any of the one may meet any of the other,
so an opening has several right answers. A slot (`{food}`) has the same filling on both sides;
`{food2}` is another food. Some slots come together: `{person}` brings `{she}`, `{her}` and
`{hers}`; `{country}` brings `{capital}`; `{one}` and `{two}` bring `{sum}`.
"""

import re

from augless.corpora.toy import english
from augless.corpora.toy.dice import Dice

PEOPLE = (
    "Anna:she:her:her, Peter:he:him:his, Maria:she:her:her, Tom:he:him:his, Julia:she:her:her, "
    "Paul:he:him:his, the new teacher:she:her:her, our neighbour:he:him:his, Emma:she:her:her, "
    "the doctor:she:her:her, David:he:him:his, the manager:he:him:his, Clara:she:her:her, "
    "Martin:he:him:his"
)
COUNTRIES = (
    "France:Paris, Italy:Rome, Spain:Madrid, Germany:Berlin, Austria:Vienna, Poland:Warsaw, "
    "Greece:Athens, Norway:Oslo, Portugal:Lisbon, Ireland:Dublin, Hungary:Budapest, Japan:Tokyo, "
    "Egypt:Cairo, Cuba:Havana, Peru:Lima, Kenya:Nairobi"
)
SLOTS = {
    "food": """pizza, tomato soup, apple pie, fried fish, fresh bread, rice, pancakes, grilled
        cheese, strawberries, chicken, noodles, chocolate cake, salad, mushrooms, onion soup""",
    "drink": "coffee, green tea, orange juice, milk, water, lemonade, red wine, hot chocolate",
    "thing": """umbrella, bicycle, guitar, camera, jacket, dictionary, suitcase, watch, lamp,
        backpack, blanket, ladder, hammer, map, radio, tent""",
    "colour": "red, blue, green, black, white, yellow, brown, grey",
    "room": "kitchen, living room, bedroom, garden, garage, cellar, hall, office",
    "spot": "on the table, under the chair, behind the door, in the drawer, next to the window",
    "place": """museum, station, library, post office, hospital, market, cinema, bank, castle,
        swimming pool, bakery, town hall""",
    "city": "Berlin, Hamburg, London, Vienna, Prague, Lisbon, Dublin, Athens, Oslo, Rome",
    "event": "concert, film, meeting, match, party, lesson, exhibition, wedding, race",
    "day": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "hobby": """swimming, reading, cooking, dancing, hiking, painting, fishing, singing, skating,
        playing chess, riding horses, taking photos""",
    "job": "teacher, nurse, driver, baker, farmer, lawyer, painter, cook, engineer, dentist",
    "animal": "dog, cat, parrot, horse, rabbit, goat, hamster, duck",
    "pet_name": "Bella, Max, Luna, Charlie, Rocky, Daisy, Oscar, Ruby",
    "ache": "head, tooth, back, knee, shoulder, stomach, foot, arm",
    "weather": "sunny, rainy, windy, cold, foggy, warm, cloudy, stormy",
    "book": """The Silent River, A Winter Tale, The Last Train, Seven Doors, The Glass Garden, Under
        the Bridge, The Clockmaker, Two Brothers""",
    "subject": "history, music, biology, geography, chemistry, art, physics, Latin",
    "street": "first, second, third, fourth",
    "side": "left, right",
    "month": "January, March, April, June, July, September, October, December",
}

EXCHANGES = """
? Do you like {food}?
? Would you eat {food} every day?
? Is {food} something you enjoy?
> Yes, I love {food}.
> Not really, I prefer {food2}.
> Only when {person} is cooking.
> No, {food} makes me sick.
? How did you like the {food} in {city}?
? Was the {food} in {city} any good?
> The {food} was better than at home.
> I liked the {food2} more.
> It was far too salty.
> I had {food} there {one} times.
? Would you like some {drink} with the {food}?
? Can I bring you some {drink} with the {food}?
? Shall I order {drink} with the {food} for you?
> Yes, please, I am thirsty.
> No, thank you, I would rather have {drink2}.
> Thanks, but I have just had some {drink}.
> No {drink} today, only the {food}.
? Have you seen my {colour} {thing}?
? Do you know where the {colour} {thing} is?
? I cannot find my {colour} {thing}.
> It is {spot} in the {room}.
> I saw the {thing} {spot}.
> {person} took the {thing} this morning.
> No, but the {colour2} {thing} is {spot}.
? Whose {thing} is that {spot}?
? Who left the {colour} {thing} in the {room}?
> I think it is mine.
> {person} did, {she} bought that {thing} last {day}.
> Ask {person}, {she} has a {thing}.
? How do I get to the {place}?
? Excuse me, where is the {place}?
? Could you tell me the way to the {place} in {city}?
> Take the {street} street on the {side}.
> The {place} is next to the {place2}.
> Sorry, I am not from here.
> Go straight ahead, the {place} is on the {side}.
? When does the {event} on {day} start?
? What time is the {event} on {day}?
? At what time do we have to be at the {event} on {day}?
> The {event} starts at {one}.
> At {one} in the afternoon.
> It was moved from {day} to {day2}.
> I do not know, ask {person}.
? Are you coming to the {event} on {day}?
? Do you have time for the {event} on {day}?
? Would you go to the {event} with {person} on {day}?
> Sure, I will see you on {day}.
> I am afraid I have to work on {day}.
> No, {day} is a bad day for me.
> Yes, shall we meet at the {place}?
? What is {person} like?
? What do you think of {person}?
> {she} is very kind and likes {hobby}.
> I only know that {she} is a {job}.
> I met {her} at the {event} in {month}.
> I like {hers} jokes.
? What does {person} do?
? What is {person} doing these days?
? What kind of work did {person} find in {city}?
> {she} is a {job} now.
> {she} works as a {job}.
> {she} was a {job}, now {she} is a {job2}.
? Where does {person} live now?
? Where did {person} move in {month}?
> {she} moved to {city}.
> {she} has lived in {city} for {one} years.
> To a small house in {city}, near the {place}.
? Does {person} still live in {city}?
? Is {person} still in {city}?
> No, {she} moved to {city2} in {month}.
> Yes, {she} has been in {city} for {one} years.
> I think so, near the {place}.
? Is {person} at home?
? Can I speak to {person}, please?
? I am looking for {person}.
> {she} is in the {room}.
> Sorry, {she} has gone to the {place}.
> One moment, I will call {her}.
> {she} comes back at {one}.
? Do you enjoy {hobby}?
? Have you ever tried {hobby} with {person}?
? Are you still interested in {hobby}?
> Yes, I started {hobby} {one} years ago.
> No, I prefer {hobby2}.
> Yes, {person} taught me.
> Not since I moved to {city}.
? What is the capital of {country}?
? Which city is the capital of {country}?
? {person} wants to know the capital of {country}.
> It is {capital}.
> The capital of {country} is {capital}.
> {capital}, of course.
? In which country is {capital}?
? Where exactly is {capital}, {person} asked.
> {capital} is in {country}.
> {capital} is the capital of {country}.
> In {country}, of course.
? How was your trip to {country} in {month}?
? Did you and {person} like {country}?
> We spent {one} days in {capital}.
> {capital} was beautiful.
> The weather was {weather}, but {capital} was great.
> I liked {country}, but {person} did not.
? How much is {one} plus {two}?
? What is {one} and {two}?
? Can you add {one} and {two}?
> That makes {sum}.
> It is {sum}.
> {sum}, I think.
? I have {one} apples and {person} gives me {two}. How many do I have?
? I read {one} pages on {day} and {two} on {day2}. How many is that?
> That makes {sum}.
> {sum} in all.
> If I am right, {sum}.
? How much is the {colour} {thing}?
? What does this {colour} {thing} cost?
? Is the {colour} {thing} expensive?
> It costs {price} euros.
> The {thing} is {price} euros, the {colour2} one is cheaper.
> Only {price} euros today.
> More than the {colour2} {thing}.
? I would like to buy a {colour} {thing}.
? Do you sell a {colour} {thing}?
? {person} needs a new {colour} {thing}.
> We have one for {price} euros.
> Sorry, we have no {colour} {thing} left.
> We only have a {colour2} one.
> Yes, the {colour} {thing} is {spot}.
? What is your {colour} {animal} called?
? Tell me something about your {colour} {animal}.
> My {animal} is called {pet_name}.
> {pet_name} is {one} years old and sleeps {spot}.
> {pet_name} was a present from {person}.
? Can you look after my {animal} on {day}?
? Who will feed my {animal} on {day}?
> I can, what does the {animal} eat?
> On {day} I cannot, but on {day2} I can.
> {person} can do that, {she} likes the {animal}.
? My {ache} hurts.
? I have had pain in my {ache} since {day}.
? Something is wrong with my {ache}, it began in {month}.
> You should see a doctor about your {ache}.
> Rest until {day2} and drink {drink}.
> I am sorry to hear that.
> Does your {ache} hurt when you sit?
? Will it be {weather} on {day}?
? Is it going to be {weather} in {city} on {day}?
> It will be {weather2} on {day}.
> I hope it is not {weather}.
> They say {weather} in the morning and {weather2} later.
> I think it will be {weather}, yes.
? How did you like {book}?
? What did {person} say about {book}?
? What is {book} about?
> It is better than {book2}.
> It is about a {job} in {city}.
> I have only read {one} pages of {book} so far.
> That it is a sad story about a {job}.
? Do you like {subject} or {subject2} more?
? What is easier, {subject} or {subject2}?
> {subject}, without a doubt.
> {subject}, but I am better at {subject2}.
> {subject2}, because {person} explains it well.
? When is the {subject} exam?
? On which day in {month} is the {subject} exam?
> On {day}, and {subject2} is on {day2}.
> The {subject} exam is on {day} at {one}.
> I do not know, I only take {subject2}.
? When is the birthday of {person}?
? Does {person} have a birthday in {month}?
> It is on {day}.
> {she} was born in {month}.
> No idea, ask {her} yourself.
> {she} will be {price} in {month}.
? What shall we give {person} for {hers} birthday?
? I need a present for {person}.
? What would make {person} happy in {month}?
> {she} wants a {thing}.
> How about a {colour} {thing}?
> {she} likes {hobby}, buy {her} a book about it.
> {she} loves {food}.
? Could you help {person} in the {room} on {day}?
? Can you clean the {room} on {day}?
? Somebody has to paint the {room} on {day}.
> Yes, I will start {spot}.
> Not on {day}, I am busy.
> On {day2} I could do it.
> {person} has already done that.
? May I sit {spot} next to {person}?
? Is this seat next to {person} free?
> Sorry, somebody is sitting here.
> Please sit down.
> Yes, {she} is waiting for you.
? Can you lend me your {colour} {thing}?
? May I use your {colour} {thing} on {day}?
? {person} forgot {hers} {thing}, can {she} have yours?
> Sure, it is {spot}.
> I need the {thing} myself.
> My {thing} is broken, ask {person2}.
> Only until {day2}.
? When does the train to {city} leave on {day}?
? Is there a train from {city} to {city2} on {day}?
> There is one at {one}.
> At {one} from platform {two}.
> No train is leaving on {day}.
> You have to take the bus to {city}.
? A ticket to {city} for {day}, please.
? How much is a ticket to {city} on {day}?
? {person} wants to go to {city} on {day}.
> That is {price} euros.
> There are no seats to {city} on {day}.
> On {day2} it is cheaper.
? Why is {person} so late?
? Why did {person} not come to the {event} on {day}?
? What happened to {person} on {day}?
> {she} missed the train to {city}.
> {she} hurt {hers} {ache}.
> {she} had to go to the {place}.
> Nobody told {her} about the {event}.
"""


def _exchanges() -> list[tuple[list[str], list[str]]]:
    """Cut the text above into openings (?) and responses (>)."""
    turns: list[tuple[list[str], list[str]]] = []
    for line in EXCHANGES.strip().splitlines():
        opening = line[0] == "?"
        if opening and (not turns or turns[-1][1]):
            turns.append(([], []))
        turns[-1][0 if opening else 1].append(line[2:])
    return turns


FILLINGS = {slot: " ".join(text.split()).split(", ") for slot, text in SLOTS.items()}
TURNS = _exchanges()


def fill(slot: str, filled: dict[str, str], dice: Dice) -> None:
    """Fill a slot, and those that come with it."""
    if slot == "person2":
        names = [person.split(":")[0] for person in PEOPLE.split(", ")]
        filled[slot] = dice.pick([name for name in names if name != filled["person"]])
    elif slot in ("person", "she", "her", "hers"):
        values = dice.pick(PEOPLE.split(", ")).split(":")
        filled.update(zip(("person", "she", "her", "hers"), values, strict=True))
    elif slot in ("country", "capital"):
        values = dice.pick(COUNTRIES.split(", ")).split(":")
        filled.update(zip(("country", "capital"), values, strict=True))
    elif slot in ("one", "two", "sum"):
        one, two = 2 + dice.below(11), 2 + dice.below(11)
        numbers = (english.number(number) for number in (one, two, one + two))
        filled.update(zip(("one", "two", "sum"), numbers, strict=True))
    elif slot == "price":
        filled[slot] = english.number(20 + dice.below(79))
    else:
        values = FILLINGS[slot.rstrip("2")]
        first = filled.get(slot.removesuffix("2"), "") if slot.endswith("2") else ""
        filled[slot] = dice.pick([value for value in values if value != first])


def exchange(dice: Dice) -> tuple[str, str]:
    """Think of an opening and a response."""
    openings, responses = dice.pick(TURNS)
    both = (dice.pick(openings), dice.pick(responses))
    filled: dict[str, str] = {}
    # A slot before its second filling, so that the two differ.
    for slot in sorted(set(re.findall(r"\{(\w+)\}", " ".join(both)))):
        if slot.endswith("2") and slot[:-1] not in filled:
            fill(slot[:-1], filled, dice)
        if slot not in filled:
            fill(slot, filled, dice)
    opening, response = (_sentence(turn.format(**filled)) for turn in both)
    return opening, response


def _sentence(turn: str) -> str:
    """Begin each sentence with a capital, and put the right article."""
    turn = re.sub(r"\ba (?=[aeiou])", "an ", turn)
    return re.sub(r"(^|[.?!] )([a-z])", lambda start: start[1] + start[2].upper(), turn)
