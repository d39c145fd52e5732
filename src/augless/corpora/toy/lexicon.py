"""The words of `toy-de-en`, German beside English.

Nouns: article, German singular (`*`: takes -(e)n outside the nominative), plural (`-`: none),
English singular, its plural where irregular. Then what it is besides the kinds in the heading
(`+open`), and for places (`@`) the German preposition of rest and of movement, and the English one
of rest (and of movement, where it is not "to").
`=glasses` is plural in English only, `~furniture` singular in English only, `pl` plural in both.

Verbs: German | English | what they govern | subjects (persons, if empty) | marks. German gives
infinitive, and where irregular third person, past and participle (`!`: with sein); a dot parts a
prefix that separates; a noun belongs to the expression. English gives base/past/participle where
irregular, then what follows it (`+up` moves behind a pronoun). Options after `;` are synonyms.
Marks: `S` a state (no progressive), `L` takes a place, `M` takes a manner, `T` only "to" somebody,
`<` its German subject is the English object.

Several words share a translation, or need another one in other company: these are no mistakes.
"""

NOUNS = {
    "person man": """
der Mann Männer man men, der Vater Väter father, der Bruder Brüder brother, der Sohn Söhne son,
der Onkel Onkel uncle, der Großvater Großväter grandfather, der Junge* Jungen boy,
der Freund Freunde friend, der Nachbar* Nachbarn neighbour, der König Könige king,
der Dieb Diebe thief thieves, der Gast Gäste guest, der Prinz* Prinzen prince,
der Kollege* Kollegen colleague, der Kunde* Kunden customer, der Held* Helden hero heroes""",
    "person man job": """
der Lehrer Lehrer teacher, der Arzt Ärzte doctor, der Bauer* Bauern farmer, der Koch Köche cook,
der Student* Studenten student, der Bäcker Bäcker baker, der Maler Maler painter,
der Polizist* Polizisten policeman policemen, der Kellner Kellner waiter,
der Richter Richter judge, der Soldat* Soldaten soldier, der Sänger Sänger singer,
der Gärtner Gärtner gardener, der Fahrer Fahrer driver, der Schauspieler Schauspieler actor,
der Journalist* Journalisten journalist""",
    "person woman": """
die Frau Frauen woman women, die Mutter Mütter mother, die Schwester Schwestern sister,
die Tochter Töchter daughter, die Tante Tanten aunt, die Großmutter Großmütter grandmother,
die Freundin Freundinnen friend, die Nachbarin Nachbarinnen neighbour,
die Königin Königinnen queen, die Nichte Nichten niece, die Kundin Kundinnen customer,
die Prinzessin Prinzessinnen princess""",
    "person woman job": """
die Lehrerin Lehrerinnen teacher, die Ärztin Ärztinnen doctor,
die Studentin Studentinnen student, die Krankenschwester Krankenschwestern nurse,
die Sängerin Sängerinnen singer, die Kellnerin Kellnerinnen waitress,
die Tänzerin Tänzerinnen dancer, die Malerin Malerinnen painter,
die Schauspielerin Schauspielerinnen actress, die Richterin Richterinnen judge""",
    "person": """
das Kind Kinder child children, das Mädchen Mädchen girl, pl Eltern parents, pl Leute people,
das Baby Babys baby""",
    "animal": """
der Hund Hunde dog +bite, die Katze Katzen cat, das Pferd Pferde horse,
der Vogel Vögel bird +prey, die Kuh Kühe cow, die Maus Mäuse mouse mice +prey,
der Fisch Fische fish fish +prey, das Schaf Schafe sheep sheep, der Bär* Bären bear +bite,
das Schwein Schweine pig, der Löwe* Löwen lion +bite, der Affe* Affen monkey,
die Ente Enten duck, das Huhn Hühner chicken, der Wolf Wölfe wolf wolves +bite,
die Schlange Schlangen snake +bite, der Hase* Hasen hare +prey, der Fuchs Füchse fox,
die Ziege Ziegen goat, der Elefant* Elefanten elephant, der Esel Esel donkey,
der Frosch Frösche frog +prey, die Gans Gänse goose geese, das Kaninchen Kaninchen rabbit +prey""",
    "food": """
der Apfel Äpfel apple +cut, das Brot - bread +cut +bake, der Kuchen Kuchen cake +cut +bake,
das Ei Eier egg +cook, die Kartoffel Kartoffeln potato potatoes +cook +cut,
die Suppe Suppen soup +cook, der Käse - cheese +cut, das Fleisch - meat +cook +cut,
die Tomate Tomaten tomato tomatoes +cut, die Birne Birnen pear +cut, die Banane Bananen banana,
der Reis - rice +cook, die Wurst Würste sausage +cut, das Gemüse - =vegetables +cook +cut,
das Obst - fruit, die Kirsche Kirschen cherry, die Erdbeere Erdbeeren strawberry,
die Zwiebel Zwiebeln onion +cut, das Brötchen Brötchen roll +bake, der Keks Kekse biscuit +bake,
die Schokolade - chocolate +gift, der Salat Salate salad, der Honig - honey, das Eis - ice_cream,
die Pizza Pizzas pizza +bake""",
    "drink": """
das Wasser - water, der Kaffee - coffee, die Milch - milk, der Tee - tea, der Wein - wine,
das Bier - beer, der Saft - juice""",
    "text thing flat": """
das Buch Bücher book +gift +write, der Brief Briefe letter +write +send +sign,
die Zeitung Zeitungen newspaper, die Geschichte Geschichten story +write +tell,
der Bericht Berichte report +write +send +sign, das Gedicht Gedichte poem +write,
der Roman Romane novel +write, die Karte Karten card +write +send, die Karte Karten map,
der Vertrag Verträge contract +sign, das Märchen Märchen fairy_tale +tell,
die Zeitschrift Zeitschriften magazine, die Rechnung Rechnungen bill +pay,
der Artikel Artikel article +write""",
    "thing": """
der Schlüssel Schlüssel key +flat +lost, die Uhr Uhren watch watches +lost +gift,
die Tasche Taschen bag +carry +full, der Ball Bälle ball +throw,
das Bild Bilder picture +paint +carry, der Koffer Koffer suitcase +carry +full +upright +pack,
das Messer Messer knife knives +flat +use, die Tasse Tassen cup +break +upright +full,
das Glas Gläser glass glasses +break +upright +full, der Teller Teller plate +break,
die Flasche Flaschen bottle +break +upright +open +full +carry,
die Lampe Lampen lamp +upright +switch, der Stift Stifte pen +flat +use +lost,
das Geschenk Geschenke present +gift +send +pack, das Geschenk Geschenke gift +gift +send +pack,
das Paket Pakete parcel +carry +send +open +pack, der Schirm Schirme umbrella +lost +carry,
der Korb Körbe basket +carry +full, die Kiste Kisten box +carry +full +open,
die Gabel Gabeln fork +flat, der Löffel Löffel spoon +flat,
die Brille Brillen =glasses +flat +lost, die Schere Scheren =scissors +flat +use,
der Ring Ringe ring +gift +lost, die Puppe Puppen doll +gift, der Spiegel Spiegel mirror +break,
die Kerze Kerzen candle +light +upright, der Eimer Eimer bucket +upright +full +carry,
der Stein Steine stone +throw +carry, die Münze Münzen coin +lost +flat,
der Topf Töpfe pot +upright +full, das Kissen Kissen pillow +flat, der Hammer Hämmer hammer +use,
die Kamera Kameras camera +use +lost, die Birne Birnen light_bulb +break""",
    "plant": """
die Blume Blumen flower +gift +thing, der Baum Bäume tree, die Rose Rosen rose +gift +thing""",
    "machine": """
der Computer Computer computer +use, das Radio Radios radio, der Fernseher Fernseher television,
die Maschine Maschinen machine +use, die Waschmaschine Waschmaschinen washing_machine,
der Drucker Drucker printer +use""",
    "clothing": """
das Hemd Hemden shirt, die Hose Hosen =trousers, der Mantel Mäntel coat, das Kleid Kleider dress,
der Hut Hüte hat, der Schuh Schuhe shoe, die Jacke Jacken jacket, der Rock Röcke skirt,
die Mütze Mützen cap, der Pullover Pullover sweater, der Handschuh Handschuhe glove,
der Anzug Anzüge suit, die Krawatte Krawatten tie""",
    "vehicle": """
das Auto Autos car +drive +rent, der Wagen Wagen car +drive +rent,
das Fahrrad Fahrräder bicycle +rent, der Bus Busse bus +line +drive, der Zug Züge train +line,
das Schiff Schiffe ship, das Boot Boote boat +rent, das Flugzeug Flugzeuge plane +air,
das Motorrad Motorräder motorcycle +drive, der Lastwagen Lastwagen lorry +drive""",
    "furniture": """
der Tisch Tische table, der Stuhl Stühle chair +seat, das Bett Betten bed,
das Sofa Sofas sofa +seat, der Schrank Schränke cupboard, das Regal Regale shelf shelves,
die Bank Bänke bench +seat, der Schreibtisch Schreibtische desk, pl Möbel ~furniture""",
    "part": """
die Tür Türen door +open +shut, das Fenster Fenster window +open""",
    "place": """
das Haus Häuser house +building +shut +rent +home @in/in/in/into,
die Schule Schulen school +building @in/in/at, der Garten Gärten garden +wild @in/in/in/into,
die Stadt Städte city +home @in/in/in, der Park Parks park @in/in/in,
die Küche Küchen kitchen +room @in/in/in/into, der Bahnhof Bahnhöfe station +building @an/zu/at,
das Büro Büros office +room @in/in/in, der Wald Wälder forest +wild @in/in/in/into,
das Krankenhaus Krankenhäuser hospital +building @in/in/in,
das Dorf Dörfer village +home @in/in/in, der Supermarkt Supermärkte supermarket @in/in/at,
der Markt Märkte market @auf/auf/at, die Kirche Kirchen church +building @in/in/in,
das Museum Museen museum +building @in/in/in, das Kino Kinos cinema @in/in/at,
das Theater Theater theatre +building @in/in/at, das Restaurant Restaurants restaurant @in/in/in,
das Zimmer Zimmer room +room +rent @in/in/in/into,
die Bibliothek Bibliotheken library +building @in/in/in, der Strand Strände beach @an/an/on,
der See Seen lake @an/an/at, der Zoo Zoos zoo @in/in/at,
das Hotel Hotels hotel +building @in/in/at, die Fabrik Fabriken factory +building @in/in/in,
das Schloss Schlösser castle +building +home @in/in/in/into,
die Bank Banken bank +building @in/zu/at, die Insel Inseln island +home +wild @auf/auf/on,
die Brücke Brücken bridge @auf/auf/on/onto, der Flughafen Flughäfen airport @an/zu/at""",
    "thing instrument": """
das Klavier Klaviere piano, die Geige Geigen violin, die Gitarre Gitarren guitar""",
    "event": """
das Fest Feste party, das Konzert Konzerte concert, die Prüfung Prüfungen exam,
der Film Filme film, das Spiel Spiele game +game, die Reise Reisen trip,
die Hochzeit Hochzeiten wedding, die Sitzung Sitzungen meeting, der Kurs Kurse course""",
    "idea": """
das Problem Probleme problem +solve +tell2, die Frage Fragen question +reply +question,
die Idee Ideen idea +tell2, der Fehler Fehler mistake +mistake,
die Aufgabe Aufgaben task +solve +tell2, der Plan Pläne plan +tell2, das Wort Wörter word,
der Satz Sätze sentence +write, die Sprache Sprachen language +learn,
das Lied Lieder song +sing +write, der Traum Träume dream,
das Geheimnis Geheimnisse secret +tell, die Antwort Antworten answer""",
    "photo": "das Foto Fotos photo photos",
    "lock": "das Schloss Schlösser lock",
    "queue": "die Schlange Schlangen queue",
}

VERBS = """
schlafen schläft schlief geschlafen | sleep/slept/slept | | person animal | L
arbeiten | work | | | LM
lachen | laugh | | | M
spielen | play | | person animal | L
warten | wait | | | L
tanzen | dance | | | LM
weinen | cry | | | LM
lächeln | smile
kochen | cook | | | M
singen singt sang gesungen | sing/sang/sung | | person animal | LM
schwimmen schwimmt schwamm geschwommen! | swim/swam/swum | | person animal | M
rauchen | smoke | | | L
lügen lügt log gelogen | lie
frühstücken | have/had/had breakfast | | | L
duschen | take/took/taken a shower
auf.stehen steht stand aufgestanden! | get/got/got up | | | M
ein.schlafen schläft schlief eingeschlafen! | fall/fell/fallen asleep | | person animal
auf.wachen wacht wachte aufgewacht! | wake/woke/woken up
ein.kaufen | go/went/gone shopping | | | L
fern.sehen sieht sah ferngesehen | watch TV
aus.gehen geht ging ausgegangen! | go/went/gone out
zurück.kommen kommt kam zurückgekommen! | come/came/come back; return | | person animal
weg.laufen läuft lief weggelaufen! | run/ran/run away | | person animal
an.kommen kommt kam angekommen! | arrive | | person line air | L
ab.fahren fährt fuhr abgefahren! | depart; leave/left/left | | line
an.fangen fängt fing angefangen; beginnen beginnt begann begonnen | begin/began/begun | | event | S
statt.finden findet fand stattgefunden | take/took/taken place | | event | L
sich beeilen | hurry
sich aus.ruhen | rest | | | L
sich langweilen langweilt langweilte gelangweilt | be bored | | | S
sich verlaufen verläuft verlief verlaufen | get/got/got lost | | | L
sich erkälten | catch/caught/caught a cold
haben Hunger | be hungry | | person animal | S
haben Durst | be thirsty | | person animal | S
gehen geht ging gegangen! | go/went/gone | to | person animal | M
laufen läuft lief gelaufen!; rennen rennt rannte gerannt! | run/ran/run | to | person animal | M
fahren fährt fuhr gefahren! | drive/drove/driven | to | | M
zurück.gehen geht ging zurückgegangen! | go/went/gone back | to
reisen! | travel/travelled/travelled | far
fliegen fliegt flog geflogen! | fly/flew/flown | far | person air
um.ziehen zieht zog umgezogen! | move | far
wohnen; leben | live | at:home | | S
leben | live | at:wild | animal | S
bleiben bleibt blieb geblieben! | stay | at
sitzen sitzt saß gesessen | sit/sat/sat | on:seat
stehen steht stand gestanden | stand/stood/stood | by | person furniture
liegen liegt lag gelegen | be | by | flat | S
stehen steht stand gestanden | be | by | upright | S
legen | put/put/put | acc:flat onto
stellen | put/put/put | acc:upright onto
sehen sieht sah gesehen | see/saw/seen | acc:person,animal,building,thing | person animal | S
kaufen | buy/bought/bought | acc:thing,clothing,food,drink,vehicle,furniture,machine | | L
verkaufen | sell/sold/sold | acc:thing,clothing,vehicle,furniture,building,animal | | L
suchen | look for | acc:thing,clothing,animal,person,lost | | L
finden findet fand gefunden | find/found/found | acc:thing,clothing,animal,lost | | SL
verlieren verliert verlor verloren | lose/lost/lost | acc:lost,text,clothing | | SL
essen isst aß gegessen | eat/ate/eaten | acc:food | | LM
fressen frisst fraß gefressen | eat/ate/eaten | acc:food,prey | animal | M
trinken trinkt trank getrunken | drink/drank/drunk | acc:drink | person animal | L
lesen liest las gelesen | read/read/read | acc:text | | LM
schreiben schreibt schrieb geschrieben | write/wrote/written | acc:write | | LM
tragen trägt trug getragen | wear/wore/worn | acc:clothing
tragen trägt trug getragen | carry | acc:carry,furniture | | M
bauen | build/built/built | acc:building,rent,furniture | | M
reparieren | repair; fix | acc:vehicle,machine,furniture,lock | | LM
waschen wäscht wusch gewaschen | wash | acc:clothing,vehicle | | M
öffnen; auf.machen | open | acc:open | | M
schließen schließt schloss geschlossen; zu.machen | close; shut/shut/shut | acc:open | | M
ab.schließen schließt schloss abgeschlossen | lock | acc:shut
malen | paint | acc:paint,person,building,plant | | LM
lieben | love | acc:person,animal | | S
kennen kennt kannte gekannt | know/knew/known | acc:person,place,text | | S
treffen trifft traf getroffen | meet/met/met | acc:person | | SL
besuchen | visit | acc:person,building
brauchen | need | acc:thing,clothing,vehicle,machine,furniture,food | | S
vergessen vergisst vergaß vergessen | forget/forgot/forgotten | acc:lost,idea,text | | S
bestellen | order | acc:food,drink | | L
kochen | cook | acc:cook | | LM
backen backt backte gebacken | bake | acc:bake | | L
schneiden schneidet schnitt geschnitten | cut/cut/cut | acc:cut | | M
werfen wirft warf geworfen | throw/threw/thrown | acc:throw | | M
fangen fängt fing gefangen | catch/caught/caught | acc:prey,throw | person animal
fragen | ask | acc:person
beobachten | watch | acc:person,animal | person animal
mieten | rent | acc:rent | | S
benutzen | use | acc:use | | L
mögen mag mochte gemocht | like | acc:person,animal,food,drink | | S
verstehen versteht verstand verstanden | understand/understood/understood | acc:idea,person | | S
lösen | solve | acc:solve | | M
beantworten | answer | acc:reply | | M
singen singt sang gesungen | sing/sang/sung | acc:sing | | LM
füttern | feed/fed/fed | acc:animal
jagen | chase | acc:prey | animal
beißen beißt biss gebissen | bite/bit/bitten | acc:person,animal | bite | S
retten | rescue; save | acc:person,animal
verstecken | hide/hid/hidden | acc:lost,gift,carry | | L
stehlen stiehlt stahl gestohlen | steal/stole/stolen | acc:lost,carry,vehicle
zerbrechen zerbricht zerbrach zerbrochen | break/broke/broken | acc:break | | S
putzen | clean | acc:room,part,break,vehicle | | M
pflanzen | plant | acc:plant | | L
gießen gießt goss gegossen | water | acc:plant
heiraten | marry | acc:person | | S
stören | disturb | acc:person | person animal
gewinnen gewinnt gewann gewonnen | win/won/won | acc:game | | S
verlassen verlässt verließ verlassen | leave/left/left | acc:building,room
unterschreiben unterschreibt unterschrieb unterschrieben | sign | acc:sign
bezahlen | pay/paid/paid | acc:pay
bekommen bekommt bekam bekommen | get/got/got; receive | acc:gift,send | | S
lernen | learn | acc:learn
machen | take/took/taken | acc:photo | | L
machen | make/made/made | acc:mistake | | S
stellen | ask | acc:question
fahren fährt fuhr gefahren | drive/drove/driven | acc:drive | | M
ab.holen | pick +up | acc:person,send | | L
auf.heben hebt hob aufgehoben | pick +up | acc:throw,lost
an.rufen ruft rief angerufen | call | acc:person
mit.nehmen nimmt nahm mitgenommen | take/took/taken +along | acc:lost,carry,person,animal
auf.räumen | tidy +up | acc:room | | M
an.ziehen zieht zog angezogen | put/put/put +on | acc:clothing | | M
aus.ziehen zieht zog ausgezogen | take/took/taken +off | acc:clothing | | M
ein.laden lädt lud eingeladen | invite | acc:person
weg.werfen wirft warf weggeworfen | throw/threw/thrown +away | acc:text,clothing,break
zurück.bringen bringt brachte zurückgebracht | bring/brought/brought +back | acc:text,carry,vehicle
an.sehen sieht sah angesehen; an.schauen | look at | acc:paint,person,building,photo
vor.bereiten bereitet bereitete vorbereitet | prepare | acc:event | | M
aus.wählen | choose/chose/chosen | acc:clothing,gift,text | | M
ein.packen | pack | acc:clothing,pack | | M
an.zünden | light/lit/lit | acc:light
ein.schalten; an.machen | switch +on; turn +on | acc:machine,switch
aus.schalten; aus.machen | switch +off; turn +off | acc:machine,switch
helfen hilft half geholfen | help | dat:person,animal
danken | thank | dat:person
folgen! | follow | dat:person,animal | person animal
antworten | answer | dat:person
glauben | believe | dat:person | | S
gehören | belong to | dat:person | thing vehicle clothing | S
vertrauen | trust | dat:person | | S
zu.hören | listen to | dat:person | | M
gefallen gefällt gefiel gefallen | like | dat:thing,clothing,building,event,plant,idea | | S<
schmecken | like | dat:food | | S<
geben gibt gab gegeben | give/gave/given | dat:person acc:lost,carry,food,text
schenken | give/gave/given | dat:person acc:gift,clothing
zeigen | show/showed/shown | dat:person acc:thing,text,building,photo
schicken | send/sent/sent | dat:person acc:send
bringen bringt brachte gebracht | bring/brought/brought | dat:person acc:food,drink,carry,text
erklären | explain | dat:person acc:tell2 | | T
erzählen | tell/told/told | dat:person acc:tell
leihen leiht lieh geliehen | lend/lent/lent | dat:person acc:text,vehicle,use
empfehlen empfiehlt empfahl empfohlen | recommend | dat:person acc:text,event,place | | ST
vor.lesen liest las vorgelesen | read/read/read | dat:person acc:text | | T
warten | wait for | auf+acc:person,line | | L
denken denkt dachte gedacht | think/thought/thought of | an+acc:person,event,idea
sprechen spricht sprach gesprochen | talk to; speak/spoke/spoken with | mit+dat:person | | L
träumen | dream of | von+dat:person,event,food,animal | person animal
lachen | laugh at | über+acc:person,text,idea,mistake
spielen | play with | mit+dat:person,animal,throw | person animal | L
streiten streitet stritt gestritten | argue with | mit+dat:person | | L
tanzen | dance with | mit+dat:person | | L
arbeiten | work on | an+dat:write,solve | | L
auf.passen | look after | auf+acc:person,animal
teil.nehmen nimmt nahm teilgenommen | take/took/taken part in | an+dat:event
sich freuen | look forward to | auf+acc:event
sich interessieren | be interested in | für+acc:text,idea,building,machine | | S
sich erinnern | remember | an+acc:person,event,idea | | S
sich kümmern | take/took/taken care of | um+acc:person,animal,plant
sich verlieben | fall/fell/fallen in love with | in+acc:person | | S
sich verabschieden | say/said/said goodbye to | von+dat:person
haben Angst | be afraid of | vor+dat:animal,event,person | | S
stehen steht stand gestanden | stand/stood/stood in | in+dat:queue
bitten bittet bat gebeten | ask | acc:person um+acc:for:food,drink,lost
"""

# Verbs that govern a clause. `zu`: to do something; `ing`: doing it; `dass`: that it is so.
GOVERNORS = """
versuchen | try | zu
vergessen vergisst vergaß vergessen | forget/forgot/forgotten | zu
hoffen | hope | zu
beschließen beschließt beschloss beschlossen | decide | zu
versprechen verspricht versprach versprochen | promise | zu
planen | plan | zu
sich weigern | refuse | zu
auf.hören | stop/stopped/stopped | ing
an.fangen fängt fing angefangen; beginnen beginnt begann begonnen | begin/began/begun; start | zu
wissen weiß wusste gewusst | know/knew/known | dass
glauben | believe | dass
sagen | say/said/said | dass
denken denkt dachte gedacht | think/thought/thought | dass
hoffen | hope | dass
"""

# German (comparative, superlative stem), English (comparative, superlative), what it is said of.
# The number is the place among adjectives: opinion, size, age, colour.
ADJECTIVES = """
groß größer größt | big | 1 | animal thing building place vehicle furniture plant clothing
groß größer größt | tall | 1 | person
klein | small | 1 | animal thing building place vehicle furniture plant
klein - | little | 1 | animal thing place plant
klein | short | 1 | person
alt älter ältest | old | 2 | person animal thing building vehicle furniture text machine place
jung jünger jüngst | young | 2 | person animal
neu neuer neuest | new | 2 | thing building vehicle furniture text machine clothing idea
schön | beautiful | 0 | person animal thing building place plant clothing event
hässlich | ugly | 0 | building clothing furniture thing
gut besser best | good better best | 0 | person food drink text event idea
schlecht | bad worse worst | 0 | text event idea
teuer | expensive | 0 | thing vehicle clothing furniture machine
billig | cheap | 0 | thing vehicle clothing furniture machine
rot - | red | 3 | vehicle clothing plant throw full
blau - | blue | 3 | vehicle clothing full part
grün - | green | 3 | vehicle clothing furniture part
gelb - | yellow | 3 | vehicle clothing plant
schwarz - | black | 3 | vehicle clothing animal furniture
weiß - | white | 3 | vehicle clothing animal plant part furniture
grau - | grey | 3 | clothing animal vehicle
braun - | brown | 3 | clothing animal furniture
stark stärker stärkst | strong | 0 | person animal
schwach schwächer schwächst | weak | 0 | person
schnell | fast; quick | 0 | vehicle animal
langsam | slow | 0 | vehicle machine
müde | tired | 0 | person animal
krank kränker kränkst | sick | 0 | person animal
gesund gesünder gesündest | healthy | 0 | person animal
glücklich | happy | 0 | person
traurig | sad | 0 | person text
hungrig | hungry | 0 | person animal
freundlich | friendly | 0 | person
nett | nice | 0 | person
höflich | polite | 0 | person
klug klüger klügst | clever cleverer cleverest | 0 | person animal
dumm dümmer dümmst | stupid | 0 | person idea
fleißig | hard-working | 0 | person
faul | lazy | 0 | person animal
reich | rich | 0 | person
arm ärmer ärmst | poor | 0 | person
berühmt | famous | 0 | person building text
leer - | empty | 0 | full
voll - | full | 0 | full
sauber | clean | 0 | clothing vehicle room break
schmutzig | dirty | 0 | clothing vehicle room break
warm wärmer wärmst | warm | 0 | food drink clothing
kalt kälter kältest | cold | 0 | food drink
heiß | hot | 0 | food drink
süß | sweet | 0 | food drink
frisch | fresh | 0 | food
schwer | heavy | 0 | carry furniture
schwer; schwierig | difficult | 0 | event idea
leicht | light | 0 | carry
leicht; einfach | easy | 0 | idea
lang länger längst | long | 1 | text event
kurz kürzer kürzest | short | 1 | text event
interessant | interesting | 0 | text event idea person
langweilig | boring | 0 | text event
wichtig | important | 0 | text idea event
gefährlich | dangerous | 0 | bite event machine
laut | loud | 0 | machine instrument
ruhig | quiet quieter quietest | 0 | place
leise | quiet quieter quietest | 0 | machine
hell | bright | 0 | room
dunkel | dark | 0 | room place
modern | modern | 0 | building machine furniture
mutig | brave | 0 | person
lustig | funny | 0 | person text
seltsam | strange | 0 | person idea
nass | wet | 0 | clothing animal
"""

MEN = "Peter Paul Martin Karl Jan Otto David Simon"
WOMEN = "Anna Maria Julia Lena Sophie Clara Eva Emma"
TOWNS = "Berlin Hamburg München:Munich Wien:Vienna Köln:Cologne Paris Rom:Rome London Prag:Prague \
Italien:Italy Frankreich:France Spanien:Spain"
