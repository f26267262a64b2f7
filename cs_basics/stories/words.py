"""The words of the embedded stories: what may fill each slot, and in which forms.

A slot `{toy}` of a sentence is filled with a word of the kind "toy". A word carries its own forms,
so that a sentence asks for the one it needs: `{toy.a}` is "a red ball" where `{toy}` is "ball", and
`{skill.past}` is "rode the bike" where `{skill}` is "ride a bike". Read after stories.py, which
fills the slots, beside story_plots.py, which holds the sentences. Tested by
tests/project/test_stories.py.
"""

from itertools import product

SILENT_H = ("honest", "hour")


class Word(str):
    """A word or phrase that carries its other forms as attributes.

    Args:
        text: The plain form, which the word itself equals as a string.
        **forms: Any other forms, by name. Always there are `a`, the form with an indefinite
            article, and the forms that start a sentence, `A` and `cap`.
    """

    def __new__(cls, text: str, **_forms: str) -> "Word":
        """Make the string; the forms belong to `__init__`."""
        return super().__new__(cls, text)

    def __init__(self, text: str, **forms: str) -> None:
        self.a = with_article(text)
        self.A = capitalized(self.a)
        self.cap = capitalized(text)
        self.__dict__.update(forms)


def with_article(phrase: str) -> str:
    """Put "a" or "an" before a phrase, by the sound it starts with."""
    sounds_like_vowel = phrase[0] in "aeiou" or phrase.startswith(SILENT_H)
    return f"an {phrase}" if sounds_like_vowel else f"a {phrase}"


def capitalized(phrase: str) -> str:
    """Make the first letter a capital and leave the rest."""
    return phrase[0].upper() + phrase[1:]


def listed(text: str) -> tuple[Word, ...]:
    """Read words from a list divided by commas."""
    return tuple(Word(entry.strip()) for entry in text.split(","))


def tabled(forms: str, text: str) -> tuple[Word, ...]:
    """Read words with forms: a line each, the plain form first and the named forms after it.

    Args:
        forms: Names of the second and later columns, divided by spaces.
        text: Rows with columns divided by " / ". A first column "cat, dog" makes a word of each.

    Raises:
        ValueError: A row has more or fewer columns than there are names.
    """
    names = forms.split()
    words: list[Word] = []
    for row in text.strip().splitlines():
        plain, *values = row.split(" / ")
        columns = dict(zip(names, values, strict=True))
        words += [Word(entry.strip(), **columns) for entry in plain.split(",")]
    return tuple(words)


def described(nouns: tuple[Word, ...], adjectives: tuple[Word, ...]) -> tuple[Word, ...]:
    """Pair each noun with each adjective; `full` and `a` show the adjective, the word does not."""
    return tuple(
        Word(noun, **{**vars(noun), "full": full, "a": with_article(full)})
        for noun, adjective in product(nouns, adjectives)
        for full in [f"{adjective} {noun}"]
    )


HE = {"he": "he", "him": "him", "his": "his", "He": "He", "His": "His", "himself": "himself"}
SHE = {"he": "she", "him": "her", "his": "her", "He": "She", "His": "Her", "himself": "herself"}

# Few names, as in books for small children: a model must see each of them often before it learns
# to find the hero's name in the story, instead of guessing one.
GIRLS = listed("Amy, Anna, Daisy, Ella, Emma, Grace, Lily, Lucy, Mia, Molly, Rosie, Sue")
BOYS = listed("Ben, Billy, Finn, Henry, Jack, Leo, Max, Oliver, Sam, Tim, Toby, Tom")


def people(names: tuple[Word, ...], pronouns: dict[str, str], **forms: str) -> tuple[Word, ...]:
    """Give names their pronouns and any other forms."""
    return tuple(Word(name, **pronouns, **forms) for name in names)


def kin(ties: str, names: tuple[Word, ...], pronouns: dict[str, str]) -> tuple[Word, ...]:
    """Name companions of a child; `tie` says what they are to the child."""
    return tuple(person for tie in ties.split(", ") for person in people(names, pronouns, tie=tie))


NAMES = people(GIRLS, SHE) + people(BOYS, HE)
COLORS = listed("red, blue, green, yellow, pink, purple, orange, white, brown, black, gray, golden")
TOYS = listed(
    "ball, doll, teddy bear, toy car, toy truck, toy train, toy boat, toy plane, toy robot, top, "
    "toy horse, toy rabbit, toy elephant, puppet, whistle, yo-yo, toy dinosaur, toy owl, drum, "
    "toy tractor, toy lion, toy bus, toy rocket"
)
CLOTHES = listed("hat, scarf, cap, vest, sweater, bag, coat, raincoat, backpack")
TREASURES = listed(
    "shell, stone, button, feather, coin, bead, marble, acorn, leaf, key, bell, ring"
)
LOOKS = listed("shiny, tiny, smooth, pretty, strange, little, old, round")

KINDS: dict[str, tuple[Word, ...]] = {
    # Who
    "child": people(GIRLS, SHE, kind="girl") + people(BOYS, HE, kind="boy"),
    "animal": NAMES,
    "baby": NAMES,
    "friend": kin("friend, best friend, sister, big sister, cousin", GIRLS, SHE)
    + kin("friend, best friend, brother, big brother, cousin", BOYS, HE),
    "playmate": kin("friend, best friend, cousin", GIRLS, SHE)
    + kin("friend, best friend, cousin", BOYS, HE),
    "pal": NAMES,
    "adult": people(listed("Mom, Grandma, Aunt May, Aunt Lou"), SHE)
    + people(listed("Dad, Grandpa, Uncle Bob, Uncle Jay"), HE),
    "parent": people(listed("Mom"), SHE) + people(listed("Dad"), HE),
    "neighbor": people(listed("Mrs. Green, Mrs. Hill, Mrs. Bloom, Miss Wood, Mrs. Lake"), SHE)
    + people(listed("Mr. Brown, Mr. Stone, Mr. Field, Mr. Bell, Mr. Fox"), HE),
    "teacher": people(listed("Miss Honey, Mrs. Park, Miss Lane, Mrs. King"), SHE)
    + people(listed("Mr. Day, Mr. Cole, Mr. Page"), HE),
    # The animals that are heroes: a den and a meal that fit them
    "beast": tabled(
        "den food",
        """
rabbit / a warm burrow under a hedge / carrots
mouse / a small hole in an old wall / cheese
squirrel / a hollow oak tree / nuts
fox / a den in the green woods / berries
hedgehog / a pile of dry leaves / apples
frog / a pond with lily pads / berries
turtle / a hole by a slow river / lettuce
otter / a hole by the river / fish
skunk / a cave between two rocks / berries
mole / a tunnel under the garden / roots
badger / a deep den under the roots / mushrooms
beaver / a lodge in the stream / bark
raccoon / an empty log in the woods / plums
chipmunk / a den under a big rock / acorns
cat / a warm corner of the barn / fish
hare / a bed of grass in the meadow / herbs
piglet / a cozy pen on the farm / corn
lamb / a little barn on the farm / hay
bear cub / a quiet cave on the hill / honey
hamster / a nest in the wheat field / wheat
rat / a den under the mill / seeds
weasel / a pile of rocks in the field / eggs
kitten / a basket in the barn / fish
fawn / a quiet part of the forest / clover
""",
    ),
    "pet": tabled(
        "kind noise sniff",
        """
Biscuit, Buddy, Rex, Spot, Rusty, Scout, Barkley / dog / barked / sniffed the ground
Pepper, Ginger, Patch, Duke, Lucky, Waffle / puppy / barked / sniffed here and there
Mittens, Socks, Whiskers, Tiger, Smoky / cat / meowed / looked around with green eyes
Muffin, Pumpkin, Cookie, Snowball / kitten / meowed / crept forward on soft paws
""",
    ),
    # What people are like and do
    "trait": listed(
        "kind, happy, curious, clever, gentle, cheerful, playful, quiet, friendly, funny, busy, "
        "polite, careful, helpful, smart, sweet, active, lively, merry, thoughtful, bright"
    ),
    "age": listed("three, four, five, six"),
    "hobby": listed(
        "singing songs, painting pictures, climbing trees, telling jokes, looking at the clouds, "
        "dancing, reading books, jumping in puddles, watching birds, drawing animals, "
        "riding bikes, counting stars, asking questions, running fast, playing outside, "
        "helping others, collecting stones, playing hide and seek, picking flowers, "
        "hearing stories"
    ),
    "play": listed(
        "chasing butterflies, rolling down the hill, playing in the leaves, singing to the birds, "
        "lying in the sun, exploring the woods, playing tag, hopping over stones, "
        "smelling flowers, splashing in the water, looking at the stars, making new friends"
    ),
    "home": listed(
        "a small house by the sea, a little house near the woods, a big house with a blue door, "
        "a cozy house on a hill, a tall house in the city, a quiet village, a busy town, "
        "a little white house, a house with a red roof, an old house by the river, "
        "a small town near the mountains, a house with a big garden, an old farmhouse"
    ),
    "one_day": listed(
        "One day, One morning, One afternoon, One sunny day, One sunny morning, One warm day, "
        "One bright morning, One cool morning, One Saturday, One Sunday, One quiet afternoon, "
        "Early one morning, Late one afternoon, On a warm afternoon"
    ),
    "dear": listed("dear, sweetie, my love, honey, little one"),
    "sight": listed(
        "a butterfly on a flower, a snail on a leaf, two birds in a nest, a bee on a daisy, "
        "a long line of ants, a red ladybug, a spider on its web, a frog on a log, "
        "a green grasshopper, a fat worm, three ducks in a row, a cloud like a sheep, "
        "a cloud like a whale, a woodpecker on a tree, a lizard on a warm rock"
    ),
    # Things
    "color": COLORS,
    "toy": described(TOYS, (*COLORS, *listed("new, little, special, old"))),
    "clothing": described(CLOTHES, (*COLORS, *listed("new, warm, striped, pretty"))),
    "treasure": described(TREASURES, LOOKS),
    "snack": listed(
        "apple, banana, pear, peach, plum, orange, cookie, muffin, cupcake, sandwich, bun, "
        "pretzel, carrot, slice of bread, piece of cheese, bowl of berries, slice of melon"
    ),
    "treat": tabled(
        "it was all too",
        """
cookies, cupcakes, candies, cherries / them / were / they are all / too many
pancakes, donuts, strawberries, jelly beans / them / were / they are all / too many
ice cream, chocolate, cake, pudding, candy / it / was / it is all / too much
apple pie, cotton candy, cheesecake, pumpkin pie, popcorn / it / was / it is all / too much
""",
    ),
    "room_spot": listed(
        "under the bed, behind the sofa, in the closet, inside a big box, on the kitchen shelf, "
        "behind the curtain, under a pile of clothes, in the laundry basket, under the table, "
        "behind the door, under the blanket, in the bathtub, behind the bookcase, under a pillow, "
        "beside the piano, in an empty flower pot, on the stairs, in the bottom drawer"
    ),
    "yard_spot": listed(
        "under the bench, behind the big tree, in the tall grass, under the bushes, by the pond, "
        "next to the swings, behind the shed, in the sandbox, under a pile of leaves, "
        "between two rocks, near the gate, among the flowers, under the slide, beside the path, "
        "behind the wagon, inside a hollow log, at the foot of the hill"
    ),
    "hide_spot": listed(
        "under the bed, behind the sofa, in the closet, under the table, behind the curtain, "
        "behind the door, under the blanket, in the bathtub, behind the bookcase, in the pantry"
    ),
    "wild_spot": listed(
        "under an old oak, behind a big rock, in the tall grass, under a bush, by a pond, "
        "by a stream, on a mossy log, next to a fallen tree, among the ferns, on a flat stone"
    ),
    "high_spot": listed(
        "high up in a tree, on the roof of the house, on the roof of the shed, "
        "on a high branch, on top of the swings, on top of a tall wall"
    ),
    "song": listed("a soft song, a happy song, a song about the moon, a song about the rain"),
    "game": listed("tag, hide and seek, catch, house, school, pirates, store, knights, explorers"),
    # Rows of things that belong together
    "skill": tabled(
        "past ing fail tip",
        """
ride a bike / rode the bike / riding bikes / the bike tipped over, and {he} fell on the grass / Look straight ahead and keep your feet moving
swim / swam / swimming / water went up {his} nose / Kick your legs and take slow breaths
skate / skated / skating / {his} feet slid away, and {he} sat down hard / Bend your knees and take small steps
whistle / whistled / whistling / no sound came out / Make your lips round and blow very softly
jump rope / jumped rope / jumping rope / the rope caught {his} foot / Listen to the rope and jump when it taps the ground
catch a ball / caught the ball / catching balls / the ball flew past {his} hands / Keep your eyes on the ball
fly a kite / flew the kite / flying kites / the kite dropped to the ground / Run into the wind and let the string out slowly
tie a bow / tied the bow / tying bows / the string came loose / Make two loops and cross them
do a cartwheel / did a cartwheel / doing cartwheels / {his} legs bent, and {he} rolled over / Put your hands down first and keep your legs straight
draw a horse / drew a horse / drawing horses / it looked more like a potato / Start with a big round shape and add the legs last
play the piano / played the piano / playing the piano / {his} fingers hit the wrong keys / Play slowly, one note at a time
paddle a boat / paddled the boat / paddling boats / the boat went around in circles / Paddle on one side and then on the other
throw a hoop / threw the hoop / throwing hoops / the hoop rolled away / Look at the pole and swing your arm gently
climb a rope / climbed the rope / climbing ropes / {his} hands slipped, and {he} slid down / Hold tight with your feet and pull with your arms
read a book / read the book / reading books / the long words were too hard / Say each letter out loud and go slowly
write a letter / wrote the letter / writing letters / the pencil broke / Hold the pencil gently and do not rush
juggle / juggled / juggling / all the balls fell to the floor / Start with two balls and throw them softly
ski / skied down the hill / skiing / {he} fell into the soft snow / Lean forward and keep your skis side by side
milk a cow / milked the cow / milking cows / not one drop came out / Squeeze gently from top to bottom
row a boat / rowed the boat / rowing boats / the oars splashed, but the boat did not move / Dip both oars at the same time
knit / knitted / knitting / the yarn turned into a big knot / Make one loop at a time and do not hurry
dive / dived / diving / {he} landed flat on {his} belly / Put your hands together and tuck in your head
""",  # noqa: E501
    ),
    "broken": tabled(
        "broke tool fixed works",
        """
kite / a strong wind tore a hole in it / some tape / put tape over the hole / It flew high in the sky again
toy truck, toy car, little wagon / one of its wheels fell off / a screwdriver / put the wheel back on and made it tight / It rolled across the floor again
doll / its arm came off / a needle and thread / sewed the arm back on / It was ready to play again
teddy bear, toy rabbit / its ear tore off / a needle and thread / sewed the ear back on / It looked soft and cuddly again
picture book / a page ripped in two / some clear tape / taped the page together / All the pictures could be seen again
chair, stool / one of its legs cracked / a hammer and a nail / nailed the leg together / It stood strong and straight again
toy boat / its mast snapped / a bottle of glue / glued the mast in place / It sailed across the pond again
birdhouse, dollhouse / its roof fell off / a hammer and two nails / nailed the roof back on / It was as good as new
cup, mug / its handle broke off / a bottle of glue / glued the handle back on / It was good for hot milk again
bike, scooter / its tire went flat / a pump / pumped air into the tire / It rolled down the street again
blanket / it caught on a nail and ripped / a soft patch / sewed the patch over the rip / It kept everyone warm again
music box / it fell down and went silent / a drop of oil / oiled the tiny wheels inside / It played its sweet tune again
umbrella / the wind turned it inside out / a pair of pliers / bent the metal bars back / It kept the rain away again
clock / it stopped ticking / a tiny key / turned the key until the spring was tight / It went tick, tock, tick, tock again
flashlight, toy robot / its light went out / a new battery / put the new battery inside / It glowed in the dark again
necklace / its string broke, and the beads fell down / a new string / put the beads on the new string / It sparkled in the sun again
drum / a stick went right through it / a piece of leather / stretched the leather over the top / It went boom, boom, boom again
""",  # noqa: E501
    ),
    "trap": tabled(
        "place tool freed",
        """
kitten, squirrel, baby owl / high up in a tree / a tall ladder / climbed up the ladder and carried it down
lamb, calf, puppy, piglet / in the deep mud / a long rope / put the rope around it and pulled it out
lamb, puppy, baby goat, fawn / in the fence / a strong stick / pushed the boards apart with the stick
bird, turtle, rabbit, duckling / in an old net / a pair of scissors / cut the net with great care
bunny, fox cub, sparrow, hedgehog / in a thorny bush / thick gloves / bent the branches back, one by one
hedgehog, turtle, frog, mouse / in a deep hole / a wide board / put the board into the hole like a bridge
kitten, raccoon, puppy, chipmunk / under a fallen branch / a thick pole / lifted the branch with the pole
fox cub, kitten, puppy, otter / on a rock in the river / a long plank / laid the plank from the bank to the rock
kitten, mouse, bird, frog / in a tall jar / a bit of soap / made the glass slippery with the soap
bird, bat, butterfly, robin / inside the shed / a lamp / opened the door and showed the way with the lamp
puppy, kitten, fox cub, bunny / in a pile of deep snow / a little shovel / dug the snow away
goose, swan, duck / in the thick weeds of the pond / a garden rake / pulled the weeds away with the rake
""",  # noqa: E501
    ),
    "fear": tabled(
        "sense truth",
        """
a tall dark shape by the door / saw / a coat on a hook
a long shadow on the wall / saw / the shadow of a chair
two shining eyes in the dark / saw / the cat, who wanted to come to bed
something white at the window / saw / the curtain in the wind
a strange lump on the floor / saw / a heap of clothes
a hand on the glass / saw / a leaf on the window
a thin arm behind the lamp / saw / a broom in the corner
a tapping sound at the window / heard / a branch in the wind
a low growl under the bed / heard / the dog, who was snoring
soft steps in the hall / heard / the cat on its way to the kitchen
a creak on the stairs / heard / the old wood getting cold
a dripping sound in the dark / heard / a drop of water in the sink
a scratch behind the wall / heard / a tiny mouse looking for crumbs
a low moan outside / heard / the wind in the chimney
""",
    ),
    "comfort": tabled(
        "given",
        """
night light / put a little night light by the bed
lullaby / sang a soft lullaby
story / told a funny story about a silly moose
flashlight / gave {him} a small flashlight to keep
hug / gave {him} a long, warm hug
blanket / put a fluffy blanket around {him}
teddy bear / put a teddy bear into {his} arms
""",
    ),
    "plan": tabled(
        "there packed inside past detail",
        """
have a picnic / the park / sandwiches and a basket / have a picnic on the floor / had a picnic on the floor / They spread a blanket by the window and ate their sandwiches
go to the beach / the beach / towels and a bucket / make a beach at home / made a beach at home / The blue rug was the sea, and the pillows were the sand
go camping / the woods / a tent and a lamp / camp in the living room / camped in the living room / They hung a sheet over two chairs and told stories by the lamp
go to the zoo / the zoo / hats and snacks / make a zoo at home / made a zoo at home / They put the toy animals in boxes and fed them paper leaves
see the circus / the circus / popcorn and juice / be the circus / were the circus / They walked along a rope on the floor and did silly tricks
sail boats / the lake / boats made of wood / sail boats in the bathtub / sailed boats in the bathtub / They blew on the sails and made little waves
play ball / the field / a ball and two caps / roll the ball down the hall / rolled the ball down the hall / They set up ten paper cups and knocked them all over
ride bikes / the park / helmets and water / drive a bus made of chairs / drove a bus made of chairs / They took turns to drive, and the dolls bought tickets
go fishing / the river / fishing poles and a pail / catch paper fish / caught paper fish / They cut fish out of paper and picked them up with a magnet
pick berries / the farm / two baskets and big hats / bake a berry pie / baked a berry pie / They rolled the dough and filled the house with a sweet smell
""",  # noqa: E501
    ),
    "downpour": listed(
        "it began to rain, dark clouds came and rain poured down, "
        "thunder rumbled and it started to rain, a big storm came, "
        "big drops of rain fell from the sky, the sky turned gray and the rain came down"
    ),
    "chore": tabled(
        "past sign after",
        """
water the plants / watered the plants / The leaves are hanging down / The leaves stood up straight and green
feed the fish / fed the fish / The fish must be very hungry / The fish swam around happily
feed the hens / fed the hens / The hens must be very hungry / The hens clucked and pecked at the corn
close the gate / closed the gate / The goats could run away / All the goats were safe in the yard
fill the bird bath / filled the bird bath / The birds must be thirsty / The birds came to drink and sing
walk the dog / walked the dog / The dog is waiting by the door / The dog wagged its tail all the way
set the table / set the table / It is almost time for dinner / The plates and cups stood in a neat row
take soup to the neighbor / took soup to the neighbor / The soup is getting cold / The neighbor smiled and ate every spoonful
bring in the clothes / brought in the clothes / Rain is coming / Not one sock got wet
brush the pony / brushed the pony / The pony is still full of mud / The pony had a clean and shiny coat
mail the letter / mailed the letter / The mail truck will leave soon / The letter was on its way
pick the ripe tomatoes / picked the ripe tomatoes / The birds will eat them all / A bowl of red tomatoes stood in the kitchen
return the library book / returned the library book / The library will close soon / The library lady said thank you
sweep the steps / swept the steps / The steps are covered with leaves / The steps were clean and bright
""",  # noqa: E501
    ),
    "busy_with": listed(
        "building a tower, playing with blocks, swinging on the swings, digging in the sandbox, "
        "chasing a butterfly, drawing a castle, playing with a toy train, making mud pies, "
        "playing a game, looking for bugs, bouncing a ball, blowing bubbles"
    ),
    "bake": tabled(
        "step",
        """
apple pie, pear tart, plum cake, peach pie / cut the fruit into small pieces
chocolate cake, honey cake, birthday cake, vanilla cake / stirred the batter in a big bowl
berry pie, cherry tart, blueberry cake / washed the berries and rolled out the dough
carrot cake, pumpkin pie / grated and mashed until their arms were tired
loaf of bread, loaf of banana bread / pushed and rolled the soft dough
gingerbread house, gingerbread man / cut the shapes out of the dough
lemon cake, nut cake, walnut cake, banana cake / spooned the batter into the pan
""",
    ),
    "missing": listed("flour, sugar, milk, butter"),
    "crop": tabled(
        "s grew",
        """
carrot / carrots / green tops stood in a row
pumpkin / pumpkins / long vines crept over the ground
sunflower / sunflowers / tall stems reached for the sun
tomato / tomatoes / little green balls hung from the stems
strawberry / strawberries / white flowers turned into tiny fruits
pea / peas / fat pods hung from the vines
bean / beans / thin vines climbed up the poles
melon / melons / round fruits lay in the grass
radish / radishes / round leaves covered the ground
daisy / daisies / green buds opened one by one
cucumber / cucumbers / bushy plants filled the bed
pepper / peppers / shiny fruits hung between the leaves
cabbage / cabbages / big leaves curled into balls
poppy / poppies / soft buds opened one by one
""",
    ),
    "pest": tabled(
        "harm cure",
        """
snails / nibbled the leaves / carried each snail to the field in a bucket
birds / pecked at the plants / made a scarecrow out of an old coat and a hat
rabbits / nibbled the new plants / put a small fence around the bed
weeds / took all the room / pulled out the weeds, one by one
ants / ran all over the plants / led the ants away with a drop of honey by the wall
bugs / sat on every stem / washed the leaves with water
""",
    ),
    "build": tabled(
        "of fell better",
        """
sandcastle / wet sand / a big wave washed it away / This time they built it far from the water
snowman / snow / the warm sun made it fall over / This time they built it in the cool shade
tower / wooden blocks / it leaned to one side and crashed / This time they put the biggest blocks at the bottom
fort / blankets and chairs / the blankets slid to the floor / This time they held the blankets with clothespins
bridge / sticks and stones / the stream carried the sticks away / This time they put heavy stones on both sides
hut / branches / the wind blew it down / This time they tied the branches together with string
raft / logs / the logs floated apart / This time they tied the logs with a thick rope
card house / playing cards / one small sneeze blew it down / This time they closed the window and held their breath
dam / mud and pebbles / the water broke through it / This time they packed the mud between flat stones
train / empty boxes / the boxes tipped over / This time they taped the boxes together
doghouse / old boards / the roof fell in / This time they used more nails and a strong beam
snow fort / blocks of snow / one wall slid down / This time they poured water on the walls to make ice
""",  # noqa: E501
    ),
    "lost_baby": tabled(
        "noise mother den clue",
        """
duckling / quacked softly / mother duck / the pond / wet footprints in the mud
bear cub / growled softly / mother bear / the cave / big paw prints on the path
lamb / cried baa, baa / mother sheep / the green field / bits of wool on the fence
kitten / meowed softly / mother cat / the barn / small paw prints in the dust
puppy / whined softly / mother dog / the farmhouse / paw prints in the soft mud
bunny / shook its long ears / mother rabbit / the burrow / little tracks in the grass
baby bird / peeped and peeped / mother bird / the nest / a trail of soft feathers
fawn / stood on thin legs and shook / mother deer / the forest / small hoof prints by the stream
piglet / squealed softly / mother pig / the pigpen / a muddy trail
calf / cried moo, moo / mother cow / the meadow / round hoof prints on the road
chick / cheeped and cheeped / mother hen / the hen house / a trail of yellow corn
baby fox / cried softly / mother fox / the den / tracks in the fallen leaves
baby owl / hooted softly / mother owl / the hollow tree / a trail of gray feathers
baby turtle / pulled in its head / mother turtle / the lake / a long line in the sand
baby mouse / squeaked softly / mother mouse / the hole under the barn / a trail of crumbs
baby goat / cried meh, meh / mother goat / the hill / chewed grass along the path
gosling / honked softly / mother goose / the river / flat footprints in the sand
foal / stamped its little hooves / mother horse / the stable / hoof prints on the trail
""",
    ),
    "first": tabled(
        "place worry after",
        """
{his} first day of school / the school / I will not know anyone / made a new friend and painted a picture
{his} visit to the dentist / the dentist / It will hurt / opened wide and got a sticker
{his} visit to the doctor / the doctor / The shot will hurt / held still and got a sticker
{his} first haircut / the barber shop / The scissors are so loud / sat still and got a lollipop
{his} first swim lesson / the pool / The water is too deep / kicked and splashed like a fish
the big slide / the playground / It is too high / slid all the way down and laughed
{his} first train ride / the train station / The train is so loud / looked out of the window and saw cows
the school play / the stage / I will forget my words / said every word out loud
{his} first boat trip / the harbor / The boat will tip over / felt the wind and saw a dolphin
{his} first night at camp / the camp / It will be too dark / counted the stars and slept well
{his} first pony ride / the farm / The pony is so tall / sat up straight and rode around the ring
the dance show / the hall / Everyone will look at me / danced every step
""",  # noqa: E501
    ),
    "mishap": tabled(
        "whose doing crash",
        """
vase / flower / playing ball in the house / The ball hit the vase, and it broke
lamp / reading / jumping on the sofa / A pillow hit the lamp, and it fell down
jug / milk / juggling apples / One apple hit the jug, and it broke
plate / dinner / running around the table / The plate slid off the table and broke
teapot / tea / playing pirates in the kitchen / The wooden sword hit the teapot, and it broke
cup / coffee / dancing in the kitchen / The cup fell off the shelf and broke
picture frame / silver / playing catch in the hall / The ball hit the picture frame, and it fell
flower pot / clay / chasing the cat / The flower pot tipped over and broke
bowl / fruit / spinning around and around / One hand hit the bowl, and it broke
mirror / little / swinging sticks / One stick hit the mirror, and it cracked
""",
    ),
    "getaway": described(listed("balloon, kite, paper plane, toy glider, hat, parachute"), COLORS),
    "grab": tabled(
        "got",
        """
a tall ladder / climbed up the ladder and got it down
a long broom / pushed it down with the broom
a long stick / poked it until it fell down
a fishing pole / hooked it with the fishing pole
a garden rake / pulled it down with the rake
""",
    ),
    "clue": listed(
        "under the old bridge, behind the mill, by the tallest tree, next to the well, "
        "under the stone bench, at the end of the path, behind the red barn, near the waterfall, "
        "under the apple tree, beside the big rock, at the garden wall, in the old boat"
    ),
    "chest": tabled(
        "full",
        """
wooden box / chocolate coins
little chest / shiny beads
tin box / old coins
leather bag / glass marbles
clay jar / pretty shells
green bottle / a funny letter
big basket / fresh cookies
blue bag / new crayons
metal box / toy animals
""",
    ),
    "gift": tabled(
        "made from",
        """
necklace / put shells on a long string / shells and string
card / drew hearts and flowers on paper / paper and crayons
painting / painted the whole family / paper and paint
scarf / tied many threads of yarn together / yarn
crown / cut a crown out of gold paper / gold paper
picture frame / glued pretty stones onto wood / wood and stones
bracelet / braided three strings together / red, white, and blue string
paper flower / folded and cut soft paper / soft paper and wire
bookmark / glued dry flowers onto a strip of paper / dry flowers and paper
clay bowl / pressed a ball of clay with both thumbs / clay
bird feeder / put seeds into an old bottle / a bottle and seeds
candle / poured warm wax into a jar / wax and string
""",
    ),
    "illness": listed("cold, fever, sore throat, bad cough, tummy ache"),
    "medicine": listed(
        "a pot of hot soup, a jar of honey, a cup of warm tea, a bag of oranges, a get-well card, "
        "a bunch of flowers, a funny book, a soft pillow, a bowl of berries"
    ),
    "hungry": tabled(
        "repay",
        """
bird / flew over the trees and saw the way
crow / flew high above the path and called
rabbit / knew every path and hopped ahead
squirrel / jumped from tree to tree and led the way
deer / walked slowly down the right path
dog / sniffed the ground and led the way
fox / waved its tail and ran ahead
mouse / ran ahead and squeaked
owl / saw well in the dark and showed the way
robin / flew from bush to bush and sang
""",
    ),
    "fast": listed("deer, pony, horse, wolf, dog, wild goat, antelope"),
    "big": tabled(
        "trouble help",
        """
elephant, lion, tiger / had a sharp thorn in its foot / pulled the thorn out
lion, wolf, buffalo / was caught in a strong net / chewed the ropes, one by one
horse, cow, bull / had a rope around its legs / chewed the rope until it broke
giraffe, moose, camel / had its head stuck between two branches / bent the branches apart
bear, moose, wolf / had a bee in its ear / blew the bee out of the ear
hippo, rhino, bull / had a nut stuck in its tooth / took the nut out of the tooth
bear, donkey, yak / had burrs all over its fur / picked the burrs out, one by one
""",
    ),
    "goal": listed(
        "the old oak tree, the big rock, the blue lake, the wooden bridge, the windmill, "
        "the top of the hill, the red barn, the tall pine tree"
    ),
    "mud": listed(
        "rolled in the mud, jumped into a muddy puddle, dug a deep hole in the garden, "
        "ran through the wet field, fell into the paint, knocked over a bag of flour, "
        "played in the ashes, chased a duck through the pond"
    ),
    "nightlight": listed(
        "fireflies, glowworms, the stars, a hundred stars, a thousand stars, tiny fireflies"
    ),
    "pupil": tabled(
        "skill past ing mother place fail tip",
        """
duckling / swim / swam / swimming / Mother Duck / pond / {he} went under and came up with weeds on {his} head / Paddle with both feet
baby bird / fly / flew / flying / Mother Bird / old oak tree / {he} flapped twice and fell into the grass / Spread your wings and trust the wind
baby owl / fly / flew / flying / Mother Owl / tall pine tree / {he} bumped into a branch / Look far ahead and flap slowly
foal / jump / jumped / jumping / Mother Horse / meadow / {he} tripped over the log / Run fast and lift your knees
baby frog / leap / leaped / leaping / Mother Frog / pond / {he} landed in the water with a splash / Bend your legs and push hard
baby rabbit / dig / dug / digging / Mother Rabbit / field / the soft dirt fell on {his} head / Use both paws and push the dirt behind you
bear cub / fish / fished / fishing / Mother Bear / river / every fish slipped away / Stand very still and wait
puppy / catch a stick / caught the stick / catching sticks / Mother Dog / yard / the stick bumped {him} on the nose / Watch the stick and open your mouth
baby squirrel / climb / climbed / climbing / Mother Squirrel / oak tree / {he} slid back down the trunk / Hold on with your claws
lamb / hop / hopped / hopping / Mother Sheep / field / {he} fell over {his} own feet / Keep your feet together
baby otter / dive / dived / diving / Mother Otter / river / {he} popped up again like a cork / Take a big breath and point your nose down
kitten / climb / climbed / climbing / Mother Cat / barn / {he} fell into the hay / Hold on tight with your claws
baby bat / fly / flew / flying / Mother Bat / old tower / {he} flapped too fast and bumped into the wall / Listen well and flap slowly
baby goat / jump / jumped / jumping / Mother Goat / rocky hill / {he} slipped and sat down on {his} tail / Look at the rock where you want to land
baby hedgehog / roll up / rolled up / rolling up / Mother Hedgehog / hedge / {his} nose stuck out / Tuck in your nose first
gosling / swim / swam / swimming / Mother Goose / lake / {he} splashed and swam in a circle / Push with both feet at the same time
baby mole / dig / dug / digging / Mother Mole / garden / the tunnel fell in / Press the dirt against the walls
""",  # noqa: E501
    ),
}
