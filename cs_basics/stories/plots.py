"""The plots of the embedded stories: what happens, and the many ways to say it.

A plot is a script of beats, in the order in which they are told; a blank line ends a beat.

- Each line of a beat is one way to tell it; one line is chosen.
- `[big|small]` chooses inside a line; an empty choice is allowed.
- `{slot}` is a word of story_words.py: filled when first mentioned, the same ever after. \
`{spot}` and
  `{spot2}` are two different words of the kind "spot"; `{he}`, `{His}` and so on agree with the \
hero.
- `@scene` on a line of its own stands for all lines of that scene.
- Marks before the first line of a beat: `#` starts a paragraph, `?` tells the beat in half of the
  stories only, `&` tells two of its lines, in any order.

Every plot follows an opening that introduces its hero. Read after stories.py, which reads this \
notation. Tested by tests/project/test_stories.py.
"""

SCENES: dict[str, str] = {
    "child": """
Once upon a time, there was {trait.a} [little |]{hero.kind} named {hero}.
Once there was {trait.a} [little |]{hero.kind} called {hero}.
{hero} was {trait.a} [little |]{hero.kind} who lived in {home}.
In {home}, there lived {trait.a} [little |]{hero.kind} named {hero}.
There was once a [little |]{hero.kind} named {hero} who [loved|liked] {hobby}.
{hero} was a [little |]{hero.kind} who loved {hobby}.
{hero} lived in {home} with {his} [family|mom and dad]. {He} was {trait.a} {hero.kind}.
Once upon a time, [a|a little] {hero.kind} named {hero} lived in {home}.
Do you know {hero}? {He} was {trait.a} {hero.kind} who lived in {home}.
This is a story about {trait.a} [little |]{hero.kind} named {hero}.
""",
    "child_facts": """
{He} was {age} years old.
{He} [liked|loved] {hobby2}.
{His} favorite color was {color}.
{He} had {color2} [boots|shoes|socks] and a big smile.
{He} liked to eat {treat2}.
Everyone said that {hero} was very {trait2}.
""",
    "beast": """
Once upon a time, there was {trait.a} [little |]{beast} named {hero}.
Once there was {trait.a} [little |]{beast} called {hero}. {He} lived in {beast.den}.
{hero} was {trait.a} [little |]{beast} who lived in {beast.den}.
In {beast.den}, there lived {trait.a} [little |]{beast} named {hero}.
There was once a [young|little] {beast} named {hero} who [loved|liked] {play}.
Long ago, {trait.a} {beast} named {hero} lived in {beast.den}.
A little {beast} named {hero} lived in {beast.den}. {He} was very {trait}.
This is a story about {trait.a} [little |]{beast} named {hero}.
""",
    "beast_facts": """
{He} [liked|loved] {play2}.
{He} liked to eat {beast.food} [every day|in the morning|best of all].
{His} best friend was {beast2.a} named {pal}.
Everyone said that {hero} was very {trait2}.
{He} had bright eyes and a soft voice.
""",
    "sight": """
On the way, {he} saw {sight}.
{He} stopped to look at {sight}, [but not for long|and then {he} went on].
The sun was [warm|shining], and the birds were singing.
The wind was soft, and the air smelled of [grass|flowers|pine trees|summer].
{He} hummed {song} on the way.
""",
}

OPENINGS: dict[str, str] = {
    "child": """
@child

?& @child_facts
""",
    "animal": """
@beast

?& @beast_facts
""",
    "baby": """
Once upon a time, there was [a|a little] {pupil} named {hero}.
{hero} was {trait.a} [little |]{pupil} who lived by the {pupil.place}.
{hero} was {trait.a} [little |]{pupil}. {He} lived with {pupil.mother} near the {pupil.place}.
At the {pupil.place}, there lived [a|a little] {pupil} named {hero}. {He} was very {trait}.
Once there was a [small|little|tiny] {pupil} called {hero}. {He} loved {his} mother very much.
""",
}

CHILD_PLOTS: dict[str, str] = {
    "lost in the house": """
{hero} had {toy.a} that {he} [loved very much|took everywhere].
{His} favorite toy was {toy.a}.
{He} loved {his} {toy.full} more than any other toy.
For {his} birthday, {he} got {toy.a} from {adult}.
{adult} gave {him} {toy.a}, and {he} played with it every day.

? {He} never went to bed without it.
At night, it [sat|stood] on a chair by {his} bed.
{He} [even |]gave it a name.

# {one_day}, {hero} could not find the {toy}.
{one_day}, the {toy} was gone.
{one_day}, {hero} wanted to play with the {toy}, but it was not in the toy box.
{one_day}, {hero} looked for the {toy}, but it was [nowhere|not there].

"Where is my {toy}?" [asked {hero}|{he} cried|{he} asked].
"Oh no! My {toy} is [gone|lost|missing]!" [{hero} cried|said {hero}].
"I have lost my {toy}," {he} said [with a sad face|with tears in {his} eyes|in a small voice].
{hero} was [very sad|so sad that {he} began to cry|worried].

{He} looked {room_spot}, but [it was not there|the {toy} was not there].
{He} looked {room_spot}. No {toy}! {He} looked {room_spot2}. No {toy} there!
First {he} looked {room_spot}. Then {he} looked {room_spot2}. {He} found [nothing|only dust].
Was it {room_spot}? No. Was it {room_spot2}? No, it was not.

# {parent} saw that {hero} was sad. "[Let us|We can] look together," said {parent}.
"When did you last play with it?" asked {parent}. {hero} [thought hard|closed {his} eyes to think].
"Do not cry, {dear}," said {parent}. "We will find your {toy}."
Then {pet} the {pet.kind} came in. "{pet}, can you help me?" asked {hero}. {pet} {pet.noise}.
{His} {friend.tie} {friend} came to help. "I will look too," said {friend}.

They looked [all over the house|in every room|high and low]. \
At last, there it was: the {toy.full}, {room_spot3}!
Then {hero} looked {room_spot3}, and there was the {toy}!
Suddenly, [something {color} moved|{hero} had an idea]. {He} ran to look {room_spot3}. \
There was the {toy}!
They found the {toy} {room_spot3}. It had been there all the time.

"[Hooray|Yay|Look]! [Here it is|I found it|My {toy} is back]!" [{hero} shouted|{he} cried|said \
{hero}].
{hero} [held the {toy} tight|jumped up and down|laughed and danced].
"There you are!" [said|cried] {hero}, and {he} [picked up|hugged] the {toy}.

# From that day on, {hero} always put the {toy} [back in its place|in the toy box].
"[Next time|From now on], I will put my {toy} in the toy box," said {hero}. And {he} did.
That night, {hero} slept with the {toy} [next to {him}|by {his} side].
{hero} never lost {his} {toy} again.
{hero} [learned|knew now] that things are easy to find when they have a place.
""",
    "lost outside": """
{one_day}, {hero} took {his} {toy.full} to the park.
{one_day}, {hero} and {adult} went to the park. {hero} carried {toy.a}.
{hero} had {toy.a}. {one_day}, {he} took it [outside|to the park|to the playground].

? @sight

{hero} met {his} {friend.tie} {friend} there, and they played {game}.
{He} played {game} with {his} {friend.tie} {friend}. It was [so much|lots of] fun.
{His} {friend.tie} {friend} was there too. They ran and [laughed|jumped|sang] for [hours|a long \
time].

# When it was time to go home, {hero} looked for the {toy}. It was [gone|not there]!
Then {hero} [looked around|stopped]. "[{friend}, where|Where] is my {toy}?" {he} asked.
After a while, {hero} saw that the {toy} was [missing|gone].
"It is time to go home," said {friend}. Then {hero} cried, "My {toy}! I lost it!"

{hero} felt [sad|like crying]. "[It is my favorite toy|I want my {toy} back]," {he} said.
A tear rolled down {hero}'s cheek.
{His} lip shook. "I had it [this morning|when we came]," {he} said.
{hero} was [worried|upset]. "What if it is lost forever?" {he} [asked|said].

"[Do not worry|Do not be sad], {hero}. I will help you," said {friend}.
"We can find it [together|if we both look]," {friend} said [kindly|softly].
{friend} took {his} hand. "[Come on|Come], let us look for it," said {friend}.

They looked {yard_spot}, but [it was not there|they found only {treasure.a}].
{hero} looked {yard_spot}. {friend} looked {yard_spot2}. They [did not find|could not see] the \
{toy}.
First they looked {yard_spot}. Then they looked {yard_spot2}. There was no {toy}.

? They asked {neighbor}, but {neighbor} had not seen it.
"[Have you seen|Did you see] {toy.a}?" {hero} asked {neighbor}. "[I am sorry, no|No, dear]," \
said {neighbor}.
{neighbor} walked by and said, "Look where you played first."

# At last, {friend} [looked|peeked] {yard_spot3}. "[Look|I see it], {hero}!" {friend} called. \
It was the {toy.full}!
Then {hero} [looked|ran to look] {yard_spot3}. There was the {toy}!
Then they saw something {yard_spot3}. It was {hero}'s {toy}!

"Thank you, {friend}!" said {hero}. "You are [the best|a true friend|so kind]."
{hero} was so happy that {he} [hugged {friend}|clapped {his} hands|gave {friend} a big hug].
{hero} [held|picked up] the {toy} and smiled. "You helped me, {friend}," {he} said.

They walked home together, and {hero} [held the {toy} tight|did not let go of the {toy}].
After that, {hero} always [kept the {toy} close|looked for {his} {toy} before {he} went home].
{hero} [learned|found out] that a hard job is easy with [a good friend|some help].
{hero} let {friend} hold the {toy} all the way home.
""",
    "broken": """
{hero} had {broken.a} that {he} loved.
{hero} loved {his} {broken} [very much|more than anything].
{hero} had a special {broken}. It was a gift from {adult}.

? {He} showed it to [everyone|all {his} friends|{his} {friend.tie} {friend}].
{He} took good care of it.

{one_day}, something bad happened to the {broken}: {broken.broke}.
{one_day}, {hero} had bad luck with the {broken}: {broken.broke}.
{one_day}, {hero} was showing the {broken} to {his} {friend.tie} {friend} when {broken.broke}.

"Oh no!" [cried {hero}|{hero} said|{he} cried]. "My {broken} is broken!"
{hero} [began to cry|was very sad|felt terrible]. The {broken} was broken.
"It is ruined!" [cried|said] {hero}, and tears ran down {his} face.

# {He} took the broken {broken} to {adult}. "Can you [fix it|help me]?" {he} asked.
{adult} heard {him} and came [to see|right away].
{He} tried to fix it alone, but it was too hard. So {he} went to {adult}.
{adult} saw the {broken} and said, "Do not cry. [We can fix this|Broken things can be fixed]."

{adult} looked at the {broken} [with care|for a long time]. "We need {broken.tool}," \
said {adult}.
"I know what to do," said {adult}. "Go and get {broken.tool}." {hero} ran to get it.
"[First|Now] we need {broken.tool}," said {adult}. {hero} found it in the [drawer|kitchen|shed].

Together they {broken.fixed}.
{hero} held the {broken}, and {adult} {broken.fixed}.
{adult} showed {him} how, and {hero} {broken.fixed}.
They worked [slowly|with care]. They {broken.fixed}.

? "[Hold|Keep] it still," said {adult}. {hero} [did not move|held {his} breath].
It took [some|a long] time, but {hero} [was patient|did not stop|wanted to help].

# [Soon|At last] the {broken} was fixed. {broken.works}!
"[It is done|There]," said {adult}. {hero} [took|looked at] the {broken}. {broken.works}!
{hero} looked at the {broken} and smiled. {broken.works}!

"[Thank you|You are the best], {adult}!" said {hero}.
"We did it!" {hero} [cried|shouted], and {he} gave {adult} a hug.
{hero} was [so happy|proud and happy]. "[Thank you for your help|I helped too], {adult}," {he} said.

{He} [learned|found out] that a broken thing can [often |]be fixed with [care|a little help].
After that, {hero} was very careful with the {broken}.
Now {hero} loved the {broken} even more than before.
{hero} never forgot the day when they fixed the {broken}.
""",
    "stuck animal": """
{one_day}, {hero} was [out for a walk|playing outside|on {his} way home] when {he} heard a sad \
little sound.
{one_day}, {hero} and {his} {friend.tie} {friend} heard a strange sound.
{one_day}, {hero} went for a walk with {adult}. [Suddenly|Then] {he} heard a cry.
{one_day}, {hero} saw something move.

It was {trap.a}! It was stuck {trap.place}.
{hero} looked around and saw {trap.a}. It was stuck {trap.place}.
There was [a little|a small|a poor] {trap} {trap.place}. It could not get out.

"[Oh, you poor|Poor] {trap}!" said {hero}. "Are you [stuck|hurt|scared]?"
The {trap} [was shaking|was scared|looked at {hero} with big eyes|was tired and afraid].
"[Do not be afraid|Do not worry], {trap}," [said {hero}|{hero} said softly].

{He} tried to [help|reach it] alone, but {he} [could not|was too small].
{He} [reached out|stretched] as far as {he} could, but it was no use.
{hero} knew what to do. {He} had to get help.

# {He} [ran to get|called] {adult2}. "[Come quickly|Please help]! {trap.A} is stuck!" {he} \
[cried|said].
{hero} ran home to tell {adult2}. "There is {trap.a} {trap.place}!" {he} [cried|said].
{adult2} heard the noise and came [to help|running].

"[We need|I will bring] {trap.tool}," said {adult2}.
{adult2} thought for a moment and brought {trap.tool}.
{adult2} came with {trap.tool}.

{hero} spoke softly to the {trap}, and {adult2} {trap.freed}.
[Slowly and carefully|Very slowly], {adult2} {trap.freed}.
{adult2} {trap.freed}. {hero} held {his} breath.

At last the {trap} was free!
The {trap} was free [again|at last]! It [was not hurt|shook itself].
"[Hooray|Yay]! You are free!" [cried|shouted] {hero}.

#? {hero} gave the {trap} some water, and it drank every drop.
{adult2} looked at its legs. "[It is not hurt|It is fine]," said {adult2}.
{hero} [petted|patted] the {trap} with one finger.

The {trap} [looked back once|looked at {hero}], and then it went home to its family.
The {trap} [touched|rubbed] {hero}'s hand, as if to say thank you.
The next day, the {trap} came back to see {hero}.
{hero} waved, and the {trap} went on its way.

"You [were very kind|did a good thing|have a good heart], {hero}," said {adult2}.
{hero} felt [warm inside|proud and happy]. {He} had saved the {trap}.
{hero} [learned|found out] that [even small children can help|it is good to ask for help].
From then on, {hero} always looked out for animals that needed help.
""",
    "night fear": """
[One night|One dark night|One windy night], {hero} lay in bed. {He} could not sleep.
It was late, and {hero} was in bed. The room was [dark|very dark|dark and quiet].
[One night|One cold night], {hero} woke up in the dark.
{hero} did not like the dark. [One night|Late one night], {he} lay awake in {his} bed.

Then {he} {fear.sense} {fear}.
[Suddenly|All at once], {he} {fear.sense} {fear}.
{He} [sat up|opened {his} eyes]. {He} {fear.sense} {fear}.

"[What is that|Who is there]?" {he} whispered. [Nobody answered|There was no answer].
{His} heart went [thump, thump|boom, boom].
"Is it a [monster|ghost|dragon|witch]?" {hero} [thought|whispered].
{He} was [so scared that {he} could not move|very scared|afraid].

{He} pulled the blanket over {his} head.
{He} [held {his} {toy} tight|hugged {his} pillow] and closed {his} eyes.
{He} wanted to be brave, but {he} [began to shake|felt very small].

# "[{parent}! {parent}|{parent}, please come]!" {he} [called|cried].
At last {he} called for {parent}.
{He} jumped out of bed and ran to {parent}.

{parent} came and sat on the bed. "What is wrong, {dear}?" asked {parent}.
{parent} turned on the light. "[What is the matter|What is it], {dear}?" asked {parent}.
{parent} took {his} hand. "You are safe. What [happened|is it]?" asked {parent}.

"I {fear.sense} {fear}," said {hero}.
"{fear.cap}!" {hero} [said|whispered].

"[Come|Let us be brave]. We will look together," said {parent}.
"Let us see what it [really |]is," said {parent}. [They held hands|{hero} held on tight].

It was [only|just] {fear.truth}!
They looked, and they [began to laugh|had to laugh]. It was only {fear.truth}!
{parent} [laughed|pointed]. "Look, {hero}. It is only {fear.truth}."

# "[Oh|Ha, ha]! [I was scared of nothing|How silly]!" said {hero}, and {he} laughed.
{hero} [laughed|smiled]. It was not a monster at all.
{hero} felt [much better|silly, but happy].

Then {parent} {comfort.given}.
{parent} {comfort.given}, and {hero} felt warm and safe.

"Good night, my brave {hero.kind}," said {parent}.
Soon {hero} [was fast asleep|fell asleep].
{hero} closed {his} eyes and [had a sweet dream|dreamed of the stars|dreamed of flowers].

? After that night, {hero} was not so scared of the dark.
In the morning, {hero} told {his} {friend.tie} {friend} the whole story.
{hero} [learned|found out] that a scary thing is not so scary when you look at it.
""",
    "sharing": """
{hero} had {toy.a}, and {he} [loved it|was very proud of it].
{hero} got {toy.a} for {his} birthday.
{one_day}, {adult} gave {hero} {toy.a}.

[Then|The next day,|That day,] {his} {friend.tie} {friend} came to play.
{His} {friend.tie} {friend} saw the {toy} [and smiled|and wanted to play with it].
{hero} took the {toy} to {his} {friend.tie} {friend}.

"[Can I play with|May I hold|Can I have a turn with] your {toy}?" asked {friend}.
"What a [nice|lovely] {toy}! [Can|May] I play too?" asked {friend}.
{friend} reached for the {toy}. "[I want to play too|Let me try it]," said {friend}.

"No! [It is mine|It is my {toy}|You may break it]!" said {hero}.
"No!" [shouted|cried|said] {hero}, and {he} [held it tight|turned away|hid it behind {his} back].
{hero} shook {his} head. "It is only for me," {he} said.

{friend} pulled, and {hero} pulled too. They [both began to shout|were very angry].
{friend} [was sad and sat down in the corner|looked at the floor|began to cry].
"You are [mean|not fair]!" said {friend}. {friend} [walked away|turned around].

# {hero} played alone, but it was [not much fun|a little boring|no fun at all].
Now {hero} had the {toy}, but {he} did not feel [happy|good].
{hero} looked at {friend}. {He} felt [bad|a little sad] inside.

{adult2} saw them. "[A toy is more fun with a friend|Friends take turns]," {adult2} said \
[kindly|softly].
{adult2} came and asked, "How would you feel, {hero}?" {hero} [thought about it|was quiet].
"Is it more fun to have a {toy} or a friend?" asked {adult2}. {hero} [knew the answer|thought hard].

? {hero} took a deep breath.
{His} cheeks turned red.

"[I am sorry|Sorry], {friend}," said {hero}. "[You can|Please] play with my {toy}."
{hero} [gave|held out] the {toy} to {friend}. "[Here|Your turn]," {he} said. "I am sorry."
"[Let us|We can] [share|take turns]," said {hero}. "You can go first, {friend}."
{hero} went to {friend} and said, "I was mean. Let us play with the {toy} together."

# {friend} smiled. "Thank you, {hero}!" [They played together all day|They laughed and played].
{friend} wiped away the tears and smiled. They took turns with the {toy}.
"[Thank you|Oh, thank you]!" said {friend}. First {friend} played with the {toy}, and then {hero} \
did.

They [made up a new game with the {toy}|played until dinner], and it was [so much|great] fun.
The {toy} was [more|twice the] fun with two.

? Then {friend} let {hero} play with {friend.his} {toy2.full} too.

{hero} [learned|found out] that sharing [is fun|makes everyone happy|is better than fighting].
After that, {hero} [always |]shared the {toy} with {friend}.
{hero} and {friend} [never fought over the {toy} again|stayed good friends].
"Sharing is [fun|nice]," said {hero}. {friend} [nodded|smiled] and said, "Yes, it is."
""",
    "rainy plan": """
{one_day}, {hero} and {adult} wanted to {plan}.
{one_day}, {adult} said, "Today we will {plan}!" {hero} jumped for joy.
{hero} was very excited. {He} and {adult} wanted to {plan}.
{hero} had waited all week to {plan} with {adult}.

They packed {plan.packed}.
{hero} helped to pack {plan.packed}.
{adult} packed {plan.packed}, and {hero} put on {his} {clothing.full}.

? "I cannot wait!" said {hero}.
{hero} [ran to the door|hopped up and down]. "Let us go!" {he} said.
{His} {friend.tie} {friend} came along too.

# But then {downpour}.
Just when they opened the door, {downpour}.
They were almost ready to go to {plan.there} when {downpour}.

{hero} looked out of the window. [Everything was wet|Water ran down the glass]. {He} was sad.
"Oh no!" said {hero}. "How can we {plan} now?"
"Now we cannot {plan}," said {hero} [sadly|in a small voice].
{hero} [sat down on the floor and cried|was very sad]. "It is not fair," {he} said.
"Rain, rain, go away!" [cried|shouted] {hero}. But the rain did not stop.

"[Do not be sad|Do not worry], {dear}," said {adult}. "[We can|Let us] {plan.inside}!"
{adult} thought for a moment. "[We do not need the sun|I have an idea]," {adult.he} said. \
"[Let us|We can] {plan.inside}!"
"[I have an idea|I know what to do]," said {adult}. "What if we {plan.past} instead?"
{adult} [hugged {hero}|smiled]. "We can still have [fun|a good day]," {adult.he} said. \
"Let us {plan.inside}!"

? {hero} dried {his} tears.
{hero} [looked up|began to smile].
What a good idea!

# So they {plan.past}.
{hero} liked the idea. So they {plan.past}.
{hero} [clapped {his} hands|laughed], and they {plan.past}.

{plan.detail}.

? They played until it was dark outside.
The rain went [tap, tap, tap on the roof|drip, drop, drip], but {hero} did not hear it.
{hero} [wanted to do it all over again|forgot about the rain].

"[This was even better|It is fun inside too]," said {hero}.
{hero} was happy. The rain did not spoil {his} day.
At the end of the day, {hero} said, "I am glad that it rained!"
{hero} [learned|found out] that a rainy day can be [a good day|fun too|full of fun].

? The next day, the sun came out, and they went to {plan.there} after all.
In the evening, they saw a rainbow over the [trees|hills|roofs].
""",
    "promise": """
{one_day}, {adult} asked {hero} for help. "[Will you|Can you] {chore} today?" asked {adult}.
{one_day}, {adult} had to [go out|go to work]. "Please {chore}, {hero}," said {adult}.
It was {hero}'s job to {chore}. {one_day}, {adult} said, "Do not forget to {chore}."
{hero} wanted to help at home. "Can I {chore}?" {he} asked, and {adult} said yes.

"Yes, I promise," said {hero}.
"I [promise|will not forget]," [said {hero}|{hero} said].
{hero} nodded. "[I promise|You can count on me]," {he} said.

? "Thank you, {dear}," said {adult}. "A promise is [important|a big thing]."
{adult} smiled and gave {him} a kiss.

# But then {hero} saw {his} {friend.tie} {friend}. {friend} was {busy_with}.
But on the way, {he} met {his} {friend.tie} {friend}, who was {busy_with}.
Then {his} {friend.tie} {friend} came by. "[Come and play|Let us play {game}]!" said {friend}.

[Soon|After a while], they were [having|having so much] fun, and {hero} forgot all about {his} \
promise.
{hero} [wanted|stopped] to play too. The time went by [fast|quickly].
"Just for a minute," {hero} thought. But the minute grew [long|into an hour].

# Then {hero} looked up. The sun was [low|going down]. "My promise!" {he} [cried|said].
Suddenly {he} remembered. "Oh no! I must {chore}!" said {hero}.
Then {he} [stopped|stood still]. "I [made a promise|promised to {chore}]," {he} told {friend}.

{hero} jumped up. "{chore.sign}," {he} said. "I [have|need] to go [now|right now]."
"Wait, {hero}! Stay a little longer!" said {friend}. "{chore.sign}," {hero} said. "I must go."
"Can you not do it tomorrow?" asked {friend}. {hero} shook {his} head. "{chore.sign}," {he} said.

It was hard to leave the game, but {hero} ran [home|as fast as {he} could].
{hero} waved to {friend} and [ran all the way|hurried off].
"I will help you," said {friend}. "Then it will go faster." They ran [off together|side by side].

[Just in time|Right away], {hero} {chore.past}. {chore.after}.
{hero} {chore.past} [with great care|before it was dark]. {chore.after}.
[At last|Soon], {hero} {chore.past}. {chore.after}.

# [Later|Then], {adult} [gave {him} a hug|came and smiled]. "You kept your promise," \
{adult} said.
"Did you {chore}?" asked {adult}. "Yes, I did," {hero} said proudly.
{adult} was [proud|very happy]. "I [knew that I could|can] count on you, {hero}," said {adult}.

? {hero} told {adult} that {he} had almost forgotten. "[But you did not|Thank you for telling \
me]," \
said {adult}.
Then {adult} gave {him} [a cookie|an apple|a cup of hot milk].

{hero} felt [good|proud|tall]. It was good to keep a promise.
{hero} [learned|found out] that a promise comes before [play|fun].
From then on, {hero} always did {his} job first and played [later|after].
The next day, {hero} {chore.past} first. Then {he} played with {friend}.
""",
    "secret party": """
{playmate} was {hero}'s {playmate.tie}. Soon it was {playmate}'s birthday.
It was [almost|nearly] the birthday of {playmate}, {hero}'s {playmate.tie}.
{hero} knew [a secret|a big secret]. {His} {playmate.tie} {playmate} would get a surprise party!

"We will [bake|make] {bake.a} for {playmate}," said {adult}. "But it is a secret!"
{adult} and {hero} planned a surprise. There would be {bake.a} and {color} balloons.
{hero} bought {toy.a} for {playmate}. "[Do not tell|It is a surprise]," said {adult}.

"[I will not tell|My lips are closed]," said {hero}.
{hero} put a finger on {his} lips. "[Shh|Not a word]," {he} said.
"I can keep a secret," {hero} [said|promised].

? {He} hid the [gift|card] {room_spot}.
{He} wrote a card and drew {color2} flowers on it.

# {one_day}, {playmate} came to {hero}. "[What are you doing|Why are you smiling]?" {playmate} \
asked.
{one_day}, {playmate} saw {hero} with a [roll of paper|bag of balloons]. "What is that[ for|]?" \
asked {playmate}.
{one_day}, {playmate} asked, "Do you know what day is coming, {hero}?"

{hero} [almost told|wanted to tell] {playmate}, but then {he} [closed {his} mouth|bit {his} lip].
"Oh, nothing," said {hero}. {His} cheeks turned [red|pink].
{hero} thought of the secret and [began to giggle|looked away].

{playmate} was [a little sad|sad]. "[Nobody remembers my birthday|You forgot]," {playmate} thought.
"[Tell me|Please tell me]!" said {playmate}. "You will see," said {hero}.
{playmate} did not understand. {hero} said only, "Come to my house [tomorrow|on Sunday]."

# The [big |special |]day came. {hero} and {adult} hung up balloons and hid [behind the sofa|\
behind the door|under the table].
On the day of the party, all the friends [hid|sat still] in the dark room.
At last it was time. {playmate} opened the door. The room was [dark|quiet].

"[Surprise|Surprise! Surprise]!" they all [shouted|cried]. "Happy birthday, {playmate}!"
Then the light went on. "Happy birthday, {playmate}!" [cried|shouted] {hero}.

{playmate} [was so surprised|jumped]. "For me?" {playmate} asked [with wide eyes|and laughed].
{playmate} [laughed and cried|could not speak] for joy. There [were gifts|was cake] for everyone.
{playmate}'s face [lit up|shone]. "[I thought that you forgot|You knew it all the time]!" said \
{playmate}.

"It was [so |very |]hard to keep the secret," said {hero}, and [everyone|they all] laughed.
It had been so hard to keep the secret. {playmate} gave {hero} a hug.
{playmate} hugged {hero}. "[Thank you|Oh, thank you]," {playmate.he} said. "This is the best \
birthday \
[ever|of all]."

They ate cake, sang, and played {game}.
They [danced|sang] until it was dark. {hero} was glad that {he} had kept the secret.
{hero} [learned|found out] that a happy secret is worth the wait.
{hero} and {playmate} never forgot that [day|party].
""",
    "learning": """
{hero} wanted to learn [how |]to {skill}.
{hero} had one big wish. {He} wanted to {skill}.
{one_day}, {hero} saw {his} {friend.tie} {friend} {skill.ing} and wanted to do it too.
All {his} friends were good at {skill.ing}, but {hero} [could not do it|did not know how].

{adult} said, "I can teach you, {hero}."
"Can you [teach|show] me?" {he} asked {adult}. "[Of course|Yes], {dear}," said {adult}.
{He} asked {adult} for help, and {adult} [said yes|was happy to help].

? {hero} was [excited|a little scared|sure that it was easy].
"How hard can it be?" {hero} thought.

# The first time, {skill.fail}.
{He} tried, but {skill.fail}.
{He} tried it [once|right away]. Oh no! This time, {skill.fail}.

? {He} tried again, but it was no better.
{hero} tried again and again.

"I [cannot do it|will never learn it]!" said {hero}. {He} [wanted to stop|was sad|was angry].
{hero} [sat down|stamped {his} foot]. "[It is too hard|I give up]," {he} said.
{hero} was [sad|close to tears]. "[Everyone can do it but me|I cannot do it]," {he} said.

"Do not give up," said {adult}. "Everyone falls down [sometimes|at first]."
"It is okay," said {adult}. "[New things take time|It was hard for me too]."
{adult} smiled and said, "Try one more time. I [am right here|will help you]."
"You are almost there," {adult} said [kindly|softly].

{adult} [showed {him} how|came closer]. "{skill.tip}," {adult.he} said.
Then {adult} gave {him} a tip. "{skill.tip}," {adult.he} said.
{adult} had [a secret|some good advice] for {him}. "{skill.tip}," {adult.he} said.

# So {hero} tried [once more|again]. {He} did just what {adult} said.
{hero} [took a deep breath|wiped away {his} tears] and tried again.
[Every day|Day after day], {hero} tried again. {He} got a little better [each time|every day].
{hero} thought about {adult}'s words and tried again, [slowly|very slowly].

And then, [at last|suddenly], {he} {skill.past}!
This time it worked. {hero} {skill.past} all by {himself}!
[Slowly|Little by little], it worked. {hero} {skill.past}, and {he} did not [stop|need help]!

"[Look at me|I did it|I can do it]!" {he} [shouted|cried|called].
"[Look|See], {adult}! I can {skill}!" {he} [shouted|cried].
{hero} [laughed out loud|jumped for joy|could not stop smiling].

"[Well done|You did it|I knew it], {hero}!" said {adult}. "[I am proud of you|You did not give up]."
{adult} clapped. "You worked hard, and now you can {skill}," {adult} said.

# {hero} [learned|found out] that [trying again|not giving up] is the way to learn [new \
things|anything].
After that, {hero} loved {skill.ing} [very much|more than anything].
Later, {hero} taught {his} {friend2.tie} {friend2} how to {skill}. "Do not give up," {he} said.
That night, {hero} was tired but [proud|happy]. {He} even dreamed of {skill.ing}.
""",
    "lost baby animal": """
{one_day}, {hero} found {lost_baby.a} all alone [by the road|under a tree|near a bush|on the path].
{one_day}, {hero} was playing outside when {he} saw {lost_baby.a}. It was all alone.
{one_day}, {hero} heard a small sound. {He} looked down and saw {lost_baby.a}.
{one_day}, {hero} went [for a walk|to pick flowers]. [Suddenly|There], {he} saw {lost_baby.a}.

The {lost_baby} {lost_baby.noise}.
It was very small, and it {lost_baby.noise}.
It looked [sad|lost|cold] and {lost_baby.noise}.

"[Hello|Hi], little {lost_baby}," said {hero}. "Are you lost?"
"Where is your mother?" [asked {hero}|{hero} asked softly].
"[Do not cry|Do not be afraid]," said {hero}. "I will help you find your mother."

? {hero} wanted to keep it, but {he} knew that it missed its mother.
{He} gave it a little water.
The {lost_baby} came a little closer.

# {hero} [called|told] {adult}. "[We must be very quiet|We must look for its mother]," said {adult}.
{hero} asked {adult} what to do. "Its mother must be near," said {adult}.
{His} {friend.tie} {friend} came by. "[Let us|We must] take it home," said {friend}.

First they looked {yard_spot}, but [nobody|no one] was there.
They walked and walked. They saw {sight}, but no {lost_baby.mother}.
They [looked left and right|called and listened], but they heard [nothing|only the wind].

Then {hero} saw {lost_baby.clue}.
"Look!" [cried|said] {hero}. There was a clue: {lost_baby.clue}.
All at once, {hero} [stopped|pointed]. {He} saw {lost_baby.clue}.

[They went that way|The little {lost_baby} went ahead], all the way to {lost_baby.den}.
"[This way|Come]!" said {hero}. {He} carried the {lost_baby} to {lost_baby.den}.
They went [that way|on] until they came to {lost_baby.den}.

# There was the {lost_baby.mother}! She [ran|came] to her baby [at once|as fast as she could].
And there stood the {lost_baby.mother}. She had looked for her baby [all day|everywhere].
The {lost_baby.mother} was there. She [was so happy|made a happy sound] when she saw her baby.

The {lost_baby} [cuddled up to|snuggled against] its mother.
The {lost_baby} was [safe|safe and warm] again.
Now the {lost_baby} was home.

"Goodbye, little {lost_baby}!" {hero} [said|called] and waved.
{hero} was a little sad to say goodbye, but [very|so] happy too.
The {lost_baby.mother} looked at {hero} as if to say thank you.

? On the way home, {hero} held [hands with someone {he} loved|{his} head high].
{hero} went home and gave {parent} a big hug.

{hero} [learned|found out] that everyone needs a [home|family].
{hero} often went back to see the {lost_baby} and its mother.
That night, {hero} thought of the little {lost_baby} and its mother and smiled.
It felt good to help the {lost_baby} [get|go] home.
""",
    "garden": """
{one_day}, {adult} gave {hero} a [small bag of seeds|handful of seeds]. "[These are|They are] \
{crop} seeds," said {adult}.
{hero} wanted to grow {crop.s}. {one_day}, {adult} gave {him} some seeds.
{one_day}, {hero} found a {crop} seed [in {his} pocket|in the kitchen]. "Can we plant it?" {he} \
asked {adult}.

They dug [a little hole|little holes] in the [soft |dark |]ground and planted {crop.s}.
{hero} dug in the dirt, and {adult} showed {him} how to plant {crop.s}.
{hero} chose a sunny place in the garden and planted {crop.s} there.

? {hero} sang {song} to the seeds.
{hero} put a [little |]sign there with a picture of {crop.a}.

{hero} [watered|gave water to] the garden every day, but [nothing happened|there was only dirt].
Every morning, {hero} ran out to look. There was nothing to see.
"[When will the {crop.s} grow|Why does it take so long]?" asked {hero}.

"[Be patient|You must wait]," said {adult}. "[Good things take time|They are waking up]."
"[Plants are slow|They need sun, water, and time]," said {adult}.

# Then, [one day|at last], there were [tiny|small] green leaves. Soon {crop.grew}.
After [two|three] weeks, {hero} saw something green! Week by week, {crop.grew}.
At last the [first |]leaves came up. "[They are growing|Look]!" cried {hero}. Soon {crop.grew}.

But there was a problem. The {pest} {pest.harm}.
Then some {pest} came. The {pest} {pest.harm}.
One morning, {hero} [was upset|cried out]. The {pest} {pest.harm}!

"[My poor {crop.s}|Oh no, my garden]!" [said|cried] {hero}. "What can we do?"
{hero} was [worried|sad]. "[They will spoil|We must save] the {crop.s}!" {he} said.

{hero} and {adult} {pest.cure}. Now the {crop.s} were safe from the {pest}.
"I [have an idea|know what to do]," said {adult}. Together they {pest.cure}. It worked!
{hero} thought [hard|for a long time]. Then {he} {pest.cure}, and the garden was safe again.

# At the end of [the |]summer, the {crop.s} were [big and beautiful|ready|bright and fine].
[Many weeks later|After a long time], the garden was full of {crop.s}.
{hero} waited and waited. Then the day came, and the {crop.s} were [ready|big].

"[Look at my {crop.s}|I grew them all by myself|They are so big]!" said {hero} [proudly|with a \
smile].
{hero} picked the first {crop} and held it [up high|in both hands].

{hero} gave some {crop.s} to {neighbor}, who [was very happy|said thank you].
{hero} shared the {crop.s} with {his} {friend.tie} {friend}.
{hero} took the best {crop} to {his} teacher.

{hero} [learned|found out] that good things take time[ and care|].
"[Next year|In spring], we will plant even more {crop.s}," said {hero}.
{hero} was proud of {his} {crop.s}. The work and the waiting were worth it.
""",
    "baking": """
{one_day}, {hero} wanted to bake {bake.a} for {adult}.
{one_day}, {hero} and {adult} wanted to bake {bake.a}.
It was {adult2}'s birthday. {hero} and {adult} wanted to bake {bake.a}.
{one_day}, {hero} was hungry. "Can we bake {bake.a}?" {he} asked {adult}.

They washed their hands and put on [their |]aprons.
{hero} stood on a chair to see everything. {He} put on {color.a} apron.
{adult} took out the big bowl. {hero} took out the spoon.

# But there was [a problem|one problem]. There was no {missing}!
{hero} looked [in|into] the cupboard. "Oh no! We have no {missing}!" {he} said.
"We need {missing}," said {adult}. {hero} looked {room_spot}, but there was no {missing}.

Without {missing}, they could not bake {bake.a}.
{hero} was [sad|worried]. What could they do now?
{hero} [was sad|frowned]. No {missing} meant no {bake}.

"[Maybe|I think] {neighbor} has some {missing}," said {adult}.
Then {hero} had an idea. "I will ask {neighbor}!" {he} said.
"[Go|Run] and ask {neighbor}," said {adult}.

# {hero} [ran|went] next door and knocked. "[Hello|Good morning], {neighbor}. [May|Can] I \
have some {missing}, please?" {he} asked.
{hero} took a cup and went to {neighbor}. "Do you have some {missing}?" {he} asked[ politely|].

"Of course," said {neighbor}, and {neighbor} filled the cup with {missing}.
{neighbor} [smiled|laughed]. "[Here is some {missing}|I have lots of {missing}]. What are you \
baking?" "{bake.A}!" said {hero}.
"[Yes|Yes, dear], I do," said {neighbor}. {neighbor} gave {him} the {missing}.

{hero} said thank you and carried the {missing} home [very carefully|with both hands].
{hero} thanked {neighbor} and [ran|walked] home with the {missing}.

Then they mixed everything. They {bake.step}.
Now they could go on. They added the {missing}, and they {bake.step}.

? {hero} got [flour|batter] on {his} nose, and {adult} laughed.
{hero} licked the spoon. [Yum|Mmm]!

# [Soon|After an hour], the {bake} came out of the oven. The [whole |]house smelled [so good|sweet].
They put the {bake} in the oven and waited. It was hard to wait! [At last|Then] it was ready.
The {bake} [was|came out] golden brown. "It [smells|looks] so good!" said {hero}.

{hero} took the first [big |warm |]piece to {neighbor}. "This is for you," {he} said.
They wanted to share it, so {neighbor} came, and they all ate together.
{hero} asked {neighbor} to come over. They sat at the table and ate.

"[This is delicious|It tastes wonderful|Mmm, so good]!" said {neighbor}.
"[You are a good baker|You are very kind], {hero}," said {neighbor}.
They ate every crumb of the {bake}.

{hero} [learned|found out] that [neighbors help each other|it is nice to ask and to share].
{hero} was happy. The {bake} tasted best when it was shared.
"Next time, we will bake [one|{bake.a}] for {neighbor} too," said {hero}.
""",
    "building": """
{one_day}, {hero} and {his} {playmate.tie} {playmate} wanted to build {build.a}.
{one_day}, {hero} said to {his} {playmate.tie} {playmate}, "Let us build {build.a}!"
"What can we do today?" asked {playmate}, {hero}'s {playmate.tie}. "We can build {build.a}!" said \
{hero}.

They [got|found|looked for] {build.of} and started to work.
They used {build.of}. {hero} [worked on one side|carried], and {playmate} [helped|worked too].
First they [found|brought] a lot of {build.of}. Then they began to build.

? "It will be the [biggest|best] {build} in the world!" said {playmate}.
{playmate} sang {song}, and they worked [fast|hard].
"Our {build} needs [a flag|a name]," said {playmate}.

[Soon|After a while], the {build} was [done|big|almost done]. [They were proud|It looked great].
The {build} grew and grew. They [were very proud|stepped back to look].

# But then {build.fell}.
[Suddenly|Oh no], {build.fell}!
They [turned around|looked away] for just a moment, and {build.fell}.

"[Our {build}|All our work]!" cried {hero}. [{He} was close to tears|{He} was so sad].
{hero} [kicked the ground|threw up {his} hands]. "Our {build} is gone!" {he} said.
"It is your fault!" said {hero}. "No, it is not!" said {playmate}. They were both upset.
"You did it wrong!" said {hero}. "No, I did not!" said {playmate}. They were both angry.
{playmate} [sat down|looked at the mess] and said, "It took us so long."

"[We can|Let us] build it again," said {playmate}. "And we can make it better."
Then {hero} [had an idea|took a deep breath]. "[I know what went wrong|We can make it stronger]," \
{he} said.
{adult} came to see. "[Why did it fall|What did you learn]?" asked {adult}. They thought about it.

# So they began again. {build.better}.
They did not give up. {build.better}.
They [looked at it again|talked about it]. {build.better}.

It took a long time, but [at last|in the end] the new {build} was [ready|done].
They [helped each other|worked together], and the new {build} stood.
The second {build} was [even better|stronger] than the first.

[They waited|{hero} held {his} breath]. The {build} did not fall!
"[It works|It holds|We did it]!" [shouted|cried] {hero} and {playmate}.
{playmate} [cheered|danced around it]. "Hooray for our {build}!" said {playmate}.

? {adult} took a picture of the {build}.
They put {treasure.a} on top of it.

# {hero} [learned|found out] that when something falls, you can [build|make] it again.
{hero} and {playmate} played there [all afternoon|until dinner].
{hero} and {playmate} were [tired|dirty and tired] but [very |]happy.
"We are a good team," said {hero}. {playmate} [nodded|smiled].
""",
    "first time": """
It was almost time for {first}. {hero} [was nervous|could not sleep].
{one_day}, it was time for {first}. {hero} [was afraid|did not want to go].
{adult} told {hero} about {first}. {hero} was [scared|worried].

"I [do not want to go|am scared]," said {hero}. "{first.worry}."
{hero} [hid|sat] {hide_spot}. "{first.worry}," {he} [thought|said].
"What is the matter?" asked {adult}. "{first.worry}," {hero} [whispered|said].

? {His} tummy [felt funny|hurt a little].
{He} did not want to eat {his} breakfast.
{His} hands were cold.

"[I was scared too when I was little|It is okay to be scared]," said {adult}.
{adult} gave {him} a hug. "Being brave means that you are scared and try," {adult} said.
"I will [be with you|hold your hand]," said {adult}. "[You are braver than you think|It will be \
fun]."

? {adult} gave {him} {treasure.a}. "[It will bring you luck|Hold this when you feel scared]," \
{adult} said.
{hero} took {his} {toy.full} along.

# They went to {first.place}. {hero} held {adult}'s hand [tightly|all the way].
Then they came to {first.place}. {hero}'s heart beat fast.
At {first.place}, {hero} stopped. {He} [wanted to go home|hid behind {adult}].

There {he} saw [a boy|a girl] who was [scared|nervous] too.
A kind [woman|lady] smiled at {him}. "[Hello|Welcome], {hero}," she said.
A kind [man|old man] smiled. "[Hello|Welcome], {hero}," said the man.
"Ready?" asked {adult}. {hero} [nodded slowly|took a deep breath].

{hero} counted to three. One, two, three!
"I will try," said {hero}.
{hero} thought, "I can do it."

# Then {he} {first.after}.
{He} was brave. {He} {first.after}.
And guess what? {hero} {first.after}!

It was not [scary|bad] at all!
"[That was fun|That was not so bad|I did it]!" said {hero}.
{hero} was so surprised. "[I liked it!|Was that all?]" {he} [said|laughed].

{adult} [smiled|clapped]. "I am [so |very |]proud of you," {adult} said.
"You were very brave," said {adult}, and {he} [felt tall|smiled].

"[When can we come again|Can we go again tomorrow]?" asked {hero}.
{hero} [learned|found out] that new things are [often |]not as scary as they seem.
At home, {hero} told {his} {friend.tie} {friend} all about {first}.
After that day, {hero} was not [scared|afraid] anymore.
""",
    "truth": """
{one_day}, {hero} was {mishap.doing}. "[Please stop|Be careful], {dear}," {parent} had said.
One rainy [day|afternoon], {hero} was bored. {He} started {mishap.doing}.
{one_day}, {hero} and {his} {friend.tie} {friend} were {mishap.doing}.

Crash! {mishap.crash}.
Then there was a loud crash. {mishap.crash}.
Suddenly, it happened. {mishap.crash}!

It was {parent}'s [favorite |best |special ]{mishap}. {hero} [felt cold|stood very still].
"Oh no!" {hero} whispered. "[{parent} will be angry|That was {parent}'s {mishap}]!"
{hero} looked at the broken {mishap}. {His} [face turned red|heart beat fast].

{He} [hid|put] the pieces {room_spot}.
{He} [picked up|swept up] the pieces and hid them {room_spot}.
{hero} was afraid, so {he} hid the {mishap} {room_spot}.

# [Later|That evening], {parent} came [home|in]. "[Where is the {mishap}|What happened to the \
{mishap}]?" asked {parent}.
When {parent} came in, {parent.he} looked around. "[Have you seen|Where is] my {mishap}?" asked \
{parent}.

"I do not know," said {hero}. [But {his} tummy hurt|But {he} could not look up].
"[Maybe {pet} the {pet.kind} broke it|It was {pet} the {pet.kind}]," said {hero}. {pet} looked at \
{him} with sad eyes.
{hero} [said nothing|looked at {his} shoes]. {He} felt [very |]bad.

? {hero} could not eat {his} dinner.
{hero} could not play or sleep. {He} thought about the {mishap}.
The lie felt like a stone in {his} tummy.

# At last, {hero} [went to|sat down next to] {parent}. "I [have|want] to tell you something," \
{he} said.
{hero} [could not bear it anymore|took a deep breath]. "{parent}, I did it," {he} said.
{hero} began to cry. "It was me," {he} [said|told {parent}].

"I was {mishap.doing}, and I broke the {mishap}. I am [so |very ]sorry."
"I broke the {mishap}, and I hid it. I am [so |very ]sorry."

{parent} [was quiet|looked at {him}] for a moment. Then {parent.he} hugged {him}.
{parent} sat down and took {his} hand.

"[Thank you for telling|I am glad that you told] me the truth," said {parent}. "That was \
[brave|hard]."
"I am sad about the {mishap}, but I am [happy|proud] that you [told me|were honest]," said {parent}.

Together they [cleaned up|glued the pieces together].

? "Next time, [please be careful|listen to me]," said {parent}. {hero} nodded.
{hero} used {his} own coins to help buy a new {mishap}.

{hero} felt [light|much better]. {He} [learned|found out] that the truth is better than a lie.
{hero} [learned|found out] that [everyone makes mistakes|telling the truth is brave].
From that day on, {hero} always told the truth.
Then {hero} slept well. {He} had nothing to hide anymore.
""",
    "greedy": """
{one_day}, {hero} got a big [bag|box|bowl] of {treat} from {adult}.
{one_day}, {adult} brought home [a lot of|lots of] {treat}.
{hero} loved {treat} more than [anything|any other food]. {one_day}, there was a party with lots \
of {treat}.

"[You may have a little|Only a little], {hero}," said {adult}. "[Leave some|Save some] for the \
others."
"[Share|Please share] {treat.it} with {playmate}," said {adult}. {playmate} was {hero}'s \
{playmate.tie}.
{His} {playmate.tie} {playmate} came and asked, "May I have some {treat}?"

"No, {treat.all} mine!" said {hero}.
But {hero} did not want to share. {He} [hid {hide_spot}|ran away] with the {treat}.
But when nobody was looking, {hero} took all the {treat} and hid {hide_spot}.

{He} ate and ate. [Yum, yum|More and more]! Soon the {treat} {treat.was} [all gone|almost gone].
{He} ate the {treat} [very fast|one bite after another]. {He} did not stop.
{He} wanted just one more bite. But {he} ate and ate until {he} could eat no more.

# Then {his} tummy began to hurt. "Ouch!" said {hero}.
[But soon|After a while], {hero} did not feel well. {His} tummy [hurt|was so full that it hurt].
"[Oh|Ouch], my tummy!" {hero} [cried|said]. {He} had to lie down.

{adult} came and asked, "Did you eat all the {treat}?" {hero} [nodded|began to cry].
"What is wrong?" asked {adult}. {hero} had to tell the truth. {He} had eaten {treat.too} {treat}.
{adult} [saw {his} face|heard {him} cry] and knew [at once|right away] what was wrong.

"[I am sorry|I was greedy]," {hero} said [softly|with tears in {his} eyes].
"I will never do that again," said {hero}.
{hero} felt [bad|ashamed]. There was nothing left for {his} {playmate.tie} {playmate}.

{adult} gave {him} a cup of tea. "[Too much is not good|A little is better than too much]," \
{adult} said.
{adult} rubbed {his} tummy. "Next time, [share|stop sooner]," {adult} said.

# The next day, {hero} felt [better|well again]. {He} went to {playmate}, {his} {playmate.tie}.
[Later|In the morning], when {his} tummy was better, {hero} went to see {his} {playmate.tie} \
{playmate}.

"I am sorry, {playmate}," said {hero}. "I ate all the {treat}."
"I did not share the {treat}," {he} said. "I am sorry, {playmate}."

"[It is okay|I am not angry], {hero}," said {playmate}. {playmate.He} [hugged {him}|smiled].
{playmate} [smiled|laughed]. "Is your tummy better?" {playmate} asked.

The next time that {hero} had {treat}, {he} gave half to {playmate}.
Then they had {snack.a}. {hero} gave the [big|bigger] half to {playmate}.
Later, {adult} brought home more {treat}. {hero} took a little and gave the rest to {playmate}.

{hero} [learned|found out] that [sharing tastes best|it is good to share|enough is enough].
{hero} was never greedy again.
And {his} tummy was happy too.
""",
    "getaway": """
{one_day}, {hero} had {getaway.a}.
{one_day}, {adult} [bought|gave] {hero} {getaway.a}.
{hero} loved {his} {getaway.full}. {one_day}, {he} took it to the [park|hill|field].

{He} [ran|played] with the {getaway} and laughed.
"[Look at|I love] my {getaway}!" {he} [said|called].
{hero} showed the {getaway} to {his} {friend.tie} {friend}.

# But then a strong wind came. [Whoosh|Whoosh, whoosh]! It [took|blew away] the {getaway}.
Suddenly, the wind [pulled|took] the {getaway} out of {his} hands. It went up, up, up!
The wind blew [hard|harder and harder], and the {getaway} flew away.

"Stop! Come back!" [cried|shouted] {hero}. {He} ran after it.
"My {getaway}!" cried {hero}. {He} ran as fast as {he} could.

It landed {high_spot}.
The {getaway} came down {high_spot}. {hero} could see it, but {he} could not reach it.
Now the {getaway.full} was {high_spot}.

{He} jumped, but {he} was too small.
{hero} threw a [ball|stick] at it, but {he} missed.
{He} jumped [once|high], {he} jumped twice, but it was too high.

? {He} sat down and [cried|put {his} head in {his} hands].
"It is gone forever," {hero} said.
A bird [sat|landed] next to the {getaway} and looked at it.

# Then {neighbor} came by. "What is wrong, {hero}?" {neighbor.he} asked.
{neighbor} heard {him}. "[Can I|May I] help you?" {neighbor.he} asked.
{hero} saw {neighbor}. "Can you help me, please?" {he} asked.

{hero} told {neighbor} that the {getaway} was {high_spot}.
{hero} pointed up. "My {getaway.full} is up there," {he} said.

"[I have an idea|I can help|No problem]," said {neighbor}. {neighbor.He} got {grab}.
{neighbor} [thought|looked up] for a moment. Then {neighbor.he} went to get {grab}.

{neighbor.He} {grab.got}.
[Slowly and carefully|Very carefully], {neighbor.he} {grab.got}.
{hero} watched. {neighbor.He} {grab.got}.

# "Here [is your {getaway}|you are]," said {neighbor}. {hero} [beamed|jumped for joy].
{hero} had {his} {getaway} back! "Thank you, thank you!" {he} [said|cried].
"Hooray!" said {hero}. "[Thank you|You are so kind], {neighbor}!"

? {hero} drew a picture of the {getaway.full} for {neighbor}.
The next day, {hero} [helped {neighbor} in the garden|took some cookies to {neighbor}].

After that, {hero} always held the {getaway} [tight|with both hands] when the wind blew.
{hero} [learned|found out] that it is [good|okay] to ask for help.
{hero} [went|skipped] home with the {getaway} in {his} hands.
{hero} and {neighbor} were friends from that day on.
""",
    "treasure hunt": """
{one_day}, {hero} found an old [map|piece of paper] {room_spot}.
{one_day}, {hero} was playing when {he} found an old map {room_spot}.
{one_day}, {adult} gave {hero} a [strange|small] map. "[Follow it.|Can you read it?]" {adult.he} \
said.

There was a big {color} X on it.
It showed a path, a tree, and a big {color} X.
"[It is a treasure map|There is a treasure]!" [cried|said] {hero}.

{He} [ran to|called] {his} {friend.tie} {friend}. "[Come with me|Let us find the treasure]!" {he} \
said.
{He} [showed|took] the map to {his} {friend.tie} {friend}. "We must find the treasure," {he} said.
{His} {friend.tie} {friend} looked at the map. "I will help you to find the treasure," said \
{friend}.

? They took a [shovel|rope|lamp] and some [apples|bread|water].
{He} put on a pirate hat and took a shovel.
{friend} was [a little afraid|excited]. "Is it far?" asked {friend}.

# First they [looked|went to look] {clue}. [There was nothing|They found only {treasure.a}].
The map led them to a place {clue}. They dug there, but found [nothing|only {treasure.a}].
They walked [for a long time|far]. They looked {clue}, but there was no treasure.

"[I am tired|Maybe there is no treasure]," said {friend}. "[Let us go home|My feet hurt]."
"We are lost," said {friend}. {hero} [looked at the map again|turned the map around].

"Wait!" said {hero}. "We [read|held] the map the wrong way. The X is {clue2}!"
Then {hero} looked at the map [again|more closely]. "The X is {clue2}!" {he} said.
"Do not give up," said {hero}. "[Look|See]! The next clue says: {clue2}."

# They [ran|hurried] there and dug [and dug|a deep hole]. Clunk! There was {chest.a}!
There they [found|saw] {chest.a}. It was [heavy|old|dusty].
{clue2.cap}, they found {chest.a}.

{hero} opened it [slowly|with shaking hands]. It was full of {chest.full}!
"Open it!" said {friend}. Inside were {chest.full}!
They opened the {chest} together. They saw {chest.full}!

"[We are rich|We found it|Wow]!" [shouted|cried] {friend}.
"[What a treasure|We did it]!" [said|cried] {hero}. They danced around the {chest}.

There was a note too. It said, "[Well done|Share it with a friend]. Love, {adult2}."
They shared the treasure. One for {hero}, one for {friend}.
They shared the {chest.full}, half for {hero} and half for {friend}.

{hero} and {friend} kept the {chest} [under the bed|in a secret place].
"The best treasure is a [friend like you|good friend]," said {hero}.
{hero} [learned|found out] that you must look twice before you give up.
""",
    "handmade gift": """
It was almost {adult}'s birthday. {hero} wanted to give {adult} something [special|nice].
{one_day}, {hero} remembered that it was {adult}'s birthday [soon|the next day].
{hero} loved {adult} very much. {He} wanted to give {adult} a [birthday |special |]gift.

{He} [opened {his} piggy bank|counted {his} coins], but there was not enough money.
{He} went to the store, but everything [cost too much|was too expensive].
{He} had only [two|three|four] coins. [It was not enough.|What could {he} buy?]

{hero} was sad. "I have no gift for {adult}," {he} [said|told {his} {friend.tie} {friend}].
"What can I do?" {hero} asked {his} {friend.tie} {friend}.
{hero} [sat down to think|sighed]. Then {his} {friend.tie} {friend} came by.

"You can make {gift.a}!" said {friend}. "A gift does not have to cost [money|a lot]."
"[Make|You could make] {gift.a}," said {friend}. "You only need {gift.from}."

"[What a good idea|Yes]!" said {hero}. {He} [ran home|got to work].
{hero} [smiled|clapped {his} hands]. "I can do that!" {he} said.

# {He} got {gift.from}. Then {he} {gift.made}.
{hero} went to {his} room and closed the door. {He} {gift.made}.
{He} sat at the table all day. With great care, {he} {gift.made}.

? It was not easy. {He} had to start again [twice|three times].
"What are you doing in there?" called {adult}. "[Nothing|It is a secret]!" said {hero}.
{He} worked until {his} fingers were tired.

[At last|In the evening], the {gift} was done. It was [not perfect|a little crooked], but it \
was [pretty|made with love].
When the {gift} was ready, {hero} [wrapped|put] it in {color} paper.
{He} hid the {gift} {room_spot}.

# [The big day came|Then it was {adult}'s birthday]. {hero} [felt shy|was nervous].
On the birthday, the others gave [big|beautiful] gifts. {hero}'s gift was [very |]small.

"This is for you," said {hero}. "I made it [myself|all by myself]."
{hero} held out the {gift}. "Happy birthday, {adult}!" {he} said.

{adult} [looked at|held] the {gift} [for a long time|with shining eyes]. "You made this for me?" \
{adult} asked.
{adult} opened it and [smiled|gasped]. "{gift.A}! [It is beautiful|I love it]!" said {adult}.

{adult} [hugged|kissed] {hero}. "It is the best gift [of all|ever]," {adult.he} said.
{adult} wiped away a tear. "You made it with love," {adult.he} said.

{adult} [kept the {gift} close|showed the {gift} to everyone] from that day on.
{hero} [learned|found out] that love is worth more than money.
{hero} was so happy that {he} [danced|sang] all day.
{hero} thanked {friend} for the good idea.
""",
    "sick friend": """
{hero} and {his} {playmate.tie} {playmate} played {game} every day.
{playmate} was {hero}'s {playmate.tie}. They did everything together.
{hero} and {his} {playmate.tie} {playmate} loved to play together.

# But one day {playmate} did not come. {hero} waited and waited.
{one_day}, {hero} looked for {playmate}, but {playmate} was not there.
{one_day}, {hero} wanted to play, but {playmate} did not come out.

"Where is {playmate}?" {he} asked {adult}. "{playmate} has {illness.a}," said {adult}.
{adult} said, "{playmate} is sick with {illness.a}. {playmate.He} must [rest|stay in bed]."

{hero} was [worried|sad]. "I want to [help|make {playmate.him} feel better]," {he} said.
"Poor {playmate}!" said {hero}. "[What can I do|How can I help]?"

{He} had an idea. {He} took {medicine} for {playmate}.
{hero} wanted to bring {playmate.him} {medicine}.
{adult} helped {him} to get {medicine} ready.

? {He} put on {his} {clothing.full} and went to {playmate}'s house.

# {hero} knocked on the door. "[May|Can] I come in?" {he} asked[ softly|].
{playmate} lay in bed with a red nose.
{playmate} looked pale and tired. But {playmate.he} smiled [a little|when {playmate.he} saw {hero}].

{hero} [smiled|came closer]. "[Look|See]! I brought you {medicine}," {he} said.
{hero} sat down by the bed and gave {playmate.him} {medicine}.

"[Thank you|You are so kind], {hero}," said {playmate} in a weak voice.
"Now I feel better already," said {playmate}.
{playmate} [sat up|laughed]. "You [came|thought of me]!" {playmate.he} said.

{hero} sat by the bed and [told {playmate.him} funny stories|read to {playmate.him}|sang {song}].
They played a quiet game until {playmate} fell asleep.
{hero} stayed all afternoon. {He} told {playmate.him} about {sight2}.

? {hero} came back every day.
"I will come again tomorrow," said {hero}, and {he} did.

# After [a few|three|four] days, {playmate} was well again. {hero} and {playmate} [ran \
outside|played {game}].
[Soon|A week later], {playmate}'s {illness} was gone. They [hugged|cheered].
Each day {playmate} got a little better. [At last|Then] {playmate.he} could play again.

"You are [the best friend|so good to me]," said {playmate}. "You helped me get well."
{playmate} said, "When you are sick, I will come to you too."

? Then {hero} sneezed. "Oh no," said {playmate}. "Now it is my turn to help you!" They both laughed.
They shared {snack.a} and laughed.

{hero} [learned|found out] that a kind visit is the best medicine.
{hero} was happy to have {playmate} back.
Being kind made them both feel better.
""",
    "new child": """
One [day|Monday|morning], a new child came to {hero}'s school. [It was|The name of the new child \
was] {friend}.
One [day|Monday|morning], {teacher} said, "This is {friend}. {friend.He} is new here." {hero} \
looked up.
{one_day}, {hero} saw a new child on the playground. It was {friend}.
A new family moved in next door. {one_day}, {hero} saw their child, {friend}.

{friend} [stood alone|sat alone] and [did not say a word|looked at the ground].
{friend} was [very |]shy. {friend.He} [sat|stood] {yard_spot} all alone.
Nobody played with {friend}. {friend.He} looked [sad|lonely].

? "[Who is that|Why is {friend} so quiet]?" asked {hero}'s friends.
{friend} held {toy.a} in {friend.his} hands.
{hero} remembered how it felt to be new.

# {hero} wanted to be nice. {He} [went|walked] over to {friend}.
{hero} thought that {friend} might need a friend.
{hero} [took a deep breath|smiled] and went to {friend}.

"[Hello|Hi], I am {hero}," {he} said. "[Do you want to|Would you like to] play {game}?"
"[Hello|Hi]! My name is {hero}. [Can I sit here|May I sit with you]?" {he} asked.

{friend} [shook {friend.his} head|looked away]. {friend.He} was too [shy|scared] to speak.
{friend} [said nothing|did not answer]. {hero} [did not know what to do|did not give up].

Then {hero} had an idea. {He} took out {snack.a} and gave half to {friend}.
{hero} sat down and began to draw in the sand. [Soon|Slowly], {friend} came closer to look.
"I like {color2}," said {hero}. "What color do you like?" {friend} [whispered|said], "{color.cap}."
{hero} made a funny face. {friend} had to [smile|laugh].

# "[Thank you|You are nice]," said {friend} [softly|in a small voice].
{friend} [looked up|smiled a little]. "I am {friend}," {friend.he} said.
"I do not know anyone here," said {friend}. "Now you know me," said {hero}.

Soon they were playing {game}. {friend} [laughed|ran and laughed] out loud.
They played {game} together. {friend} was very good at it!
{hero} showed {friend} the swings, the slide, and {his} favorite tree.

? The other children came too. "[Can|May] we play with you?" they asked.
Soon all the children wanted to play with {friend}.

# "Will you [play with me|be here] tomorrow?" asked {friend}. "[Yes|Of course]," said {hero}.
At the end of the day, {friend} was not [shy|sad] anymore.
"I have a new friend!" {hero} told {adult} at home. {adult} was proud of {him}.

From that day on, {hero} and {friend} were [best |good ]friends.
{hero} [learned|found out] that one kind word can make a friend.
{hero} [learned|found out] that a smile can [help|open] a shy heart.
And {friend} was never lonely again.
""",
    "messy room": """
{hero} did not like to clean {his} room. There were [toys|clothes and toys] everywhere.
{hero}'s room was a [big |]mess. There were blocks, books, and socks on the floor.
{hero} never put {his} things away. {His} room was very messy.

"[Please clean|You must clean] your room, {hero}," said {parent}.
{parent} looked in and [shook a finger|sighed]. "It is time to clean up," said {parent}.

"[I like it this way|I want to play]," said {hero}.
But {hero} did not want to. {He} [hid {hide_spot}|went on playing].

# {one_day}, {hero} wanted to wear {his} {clothing.full} to {his} friend {playmate}'s party.
{one_day}, {his} {playmate.tie} {playmate} asked {him} to come over. "[Bring|Wear] your \
{clothing.full}!" \
said {playmate}.
{one_day}, {hero} needed {his} {clothing.full}. {parent} wanted to take {him} to {his} friend \
{playmate}'s party.

But where was the {clothing}? {hero} looked in the mess. {He} could not find it.
"Where is my {clothing}?" asked {hero}. {He} looked under the toys. [It was not there|No \
{clothing}].
{He} looked [here and there|everywhere], but {he} could not find the {clothing} in the mess.

? {He} stepped on a [block|toy car]. Ouch!
{He} slipped on a [ball|sock] and fell down. Bump!

"{parent}, help! [I cannot find|I have lost] my {clothing}!" {he} [called|cried].
{hero} [began to cry|was upset]. "[Now I will be late|I need my {clothing}]!" {he} said.

# "[It must be in this mess|Things get lost in a mess]," said {parent}. "[Let us|We can] clean up."
{parent} came in. "[I think we should|First we must] clean up," said {parent}. {hero} nodded.

{hero} put the books on the shelf and the blocks in the box. {parent} helped.
They picked up the toys, one by one. {hero} [sang|hummed] {song}.
They put the socks in the drawer and the [toys|blocks] in the box.

? "[It is like a game|This is not so hard]," said {hero}.
Now they could see the floor again!

And there, {room_spot2}, was the {clothing}!
Then {hero} looked {room_spot2}. There was the {clothing.full}!
When the room was [clean|almost clean], they found the {clothing} {room_spot2}.

"[Hooray|My {clothing}|I found it]!" [cried|shouted] {hero}, and {he} put it on.
{hero} [laughed|smiled] and put on the {clothing}.

# {hero} came to {playmate} just in time. "[What a nice|I like your] {clothing}!" said {playmate}.
{He} was not too late. {hero} and {playmate} had [a great time|lots of fun].

From then on, {hero} kept {his} room clean.
{hero} [learned|found out] that in a clean room, nothing gets lost.
After that, {hero} put {his} things away every night.
"A clean room is a [happy|nice] room," said {hero}. {parent} smiled.
""",
    "lost child": """
{one_day}, {hero} went to the [market|fair|zoo|big store] with {adult}.
{one_day}, {adult} took {hero} to the [market|fair|zoo|museum]. It was full of people.

"[Stay close to me|Hold my hand], {hero}," said {adult}.
"If you get lost, stop and stay where you are," said {adult}. {hero} nodded.

There was so much to see. {hero} saw {toy.a} and stopped to look.
{hero} saw [a man with balloons|a funny clown|a woman with a drum|a little pony]. \
{He} stopped to look.
{hero} heard music. {He} wanted to see where it came from.

# When {he} turned around, {adult} was gone!
Then {he} looked up. {adult} was not there!
After a while, {he} reached for {adult}'s hand. But [there was no hand|{adult} was not there].

"{adult}? Where are you?" {he} called. [Nobody answered|There were only strangers].
{hero} looked left and right. {He} saw only [legs|strangers].
{hero}'s heart beat fast.

{He} wanted to run, but then {he} remembered {adult}'s words: stop and stay.
{He} [began to cry|was scared]. But {he} remembered the rule. {He} stood still and did not run.
"I must be brave and stay here," {hero} thought.

? {He} held {his} {clothing.full} tight.
{He} counted to ten and then to ten again.

A woman who worked there saw {him}. "Are you lost, {dear}?" the woman asked.
A kind woman came to {him}. "[Are you alone|What is wrong], little {hero.kind}?" the woman asked.

"I cannot find {adult}," said {hero}. "My name is {hero}."
"Yes," said {hero}. "I lost {adult}. {adult.He} has {color.a} [coat|hat|bag|shirt]."

# "You were [smart|right] to stay here," the woman said. They looked for {adult} together.
"[Do not worry|You are safe]. We will wait here together," the woman said.
The woman rang a bell. "Whose {hero.kind} is this?" she called.

Soon {adult} came running. "{hero}! There you are!" {adult} cried.
Then {hero} saw {adult} in the crowd. "{adult}! Here I am!" {he} [shouted|cried].
[After a few minutes|Then] {hero} heard {adult}'s voice. {hero} had never been so glad.

{adult} held {hero} [tight|in both arms]. "I was so worried," {adult} said.
{hero} jumped into {adult}'s arms.
They hugged for a long time.

"I am sorry that I [stopped|let go of your hand]," said {hero}.
"I stayed where I was, just like you told me," said {hero}. "[Good job|That was right]," said \
{adult}.

They thanked the kind woman [and went home|and gave her a flower].

? Then they [bought|shared] {snack.a} and sat down to rest.

After that day, {hero} always held {adult}'s hand in a crowd.
{hero} learned to stay close and to stay calm.
{hero} did not let go of {adult}'s hand [all the way home|for the rest of the day].
""",
    "dirty dog": """
{hero} had a {pet.kind} named {pet}. {pet} loved to [play|run and play].
{hero} and {his} {pet.kind} {pet} were good friends.
{hero}'s best friend was a [little|brown|white|black] {pet.kind} called {pet}.

{one_day}, {pet} {mud}.
{one_day}, {pet} went outside and {mud}.
{one_day}, when nobody was looking, {pet} {mud}.

{pet} was [so |very ]dirty! "[Oh no|Oh], {pet}!" [laughed|said|cried] {hero}.
Now {pet} was a big mess from nose to tail.
"Look at you, {pet}!" said {hero}. "You need a bath."

"{pet} cannot come in like that," said {parent}. "[Please give {pet} a bath|{pet} needs a bath]."
{parent} saw the dirty {pet.kind}. "[Bath time|Time for a bath]!" said {parent}.

# But {pet} did not like baths. {pet} [ran away and hid {yard_spot}|ran around the yard].
When {pet} heard the water, {pet} ran and hid {yard_spot}.
{hero} filled the tub with warm water. But where was {pet}? {pet} hid {yard_spot}.

{hero} ran after {pet}, but {pet} was too fast.
{hero} [called|shouted], "Come here, {pet}!" But {pet} did not come.
{hero} tried to catch {pet}. {He} slipped and [fell on the grass|sat down in the mud].

? Splash! Water went everywhere.
Now {hero} was wet too. {parent} [had to laugh|laughed].

Then {hero} had an idea. {He} got a [treat|toy|cracker] and put it [by|next to] the tub.
"I know what {pet} likes," said {hero}. {He} held up a [treat|toy].
{hero} sat down by the tub and [sang {song}|spoke softly].

{pet} [sniffed|came out] and walked up to the tub, step by step.
[Slowly|Little by little], {pet} came closer. {hero} [waited|did not move].

# {hero} put {pet} into the warm water and washed {pet} with soap.
Then {hero} rubbed {pet} with soap until there were bubbles everywhere.
{pet} saw the bubbles and wanted to catch them. {pet} forgot to be afraid of the bath!

? {pet} shook, and {hero} got wet [all over|from head to toe].
{pet} had a [hat|beard] made of bubbles. {hero} laughed and laughed.

[Soon|At last], {pet} was clean [again|and soft]. {hero} [dried {pet}|rubbed {pet} dry] with \
{color2.a} towel.
After the bath, {pet} [was clean and fluffy|smelled like flowers].

"[Good job|You were so brave], {pet}!" said {hero}. {pet} {pet.noise}.
{pet} {pet.noise} happily, and {hero} gave {pet} a [hug|kiss].
"Was that so [bad|hard], {pet}?" asked {hero}. {pet} {pet.noise}.

{hero} [learned|found out] that kind words work better than shouting.
After that, {pet} was not afraid of baths anymore.
Then {hero} needed a bath too!
And what did {pet} do the next day? {pet} {mud} again!
""",
}

ANIMAL_PLOTS: dict[str, str] = {
    "race": """
{one_day}, {fast.a} said to {hero}, "I am [faster than you|the fastest of all]. Let us have a race!"
There was {fast.a} who was very proud. "Nobody can run as fast as I can!" said the {fast}.
{one_day}, all the animals came together for a race. The proud {fast} was there too.

"You are too small to win," the {fast} said to {hero}.
The {fast} laughed at {hero}. "You will never win," said the {fast}.
"[Look at your legs|You are so slow], {hero}!" said the {fast} and laughed.

{hero} felt [sad|hurt], but {he} said, "I will try."
"[We will see|I can try]," said {hero} [quietly|bravely].
"I will do my best," said {hero}.

They would run all the way to {goal}.
"The first to reach {goal} [wins|is the winner]," said the old owl.
The race went all the way to {goal}.

# "Ready, set, go!" called the old owl. The {fast} ran [off like the wind|far ahead].
They started. [Soon|In no time], the {fast} was far ahead, and {hero} was far behind.

{hero} [kept going|went on], step by step.
{hero} was [tired|out of breath], but {he} did not give up.

? The {fast} looked back and laughed. "I have time to rest," said the {fast}.
{hero} passed {sight}, but {he} did not stop.

Then the {fast} [tripped over a root|slipped in the mud|fell over a stone]. "Ouch! My leg!" \
cried the {fast}.
[Suddenly|Near the end], {hero} heard a cry. The {fast} had fallen into a [ditch|hole]!

# {hero} could [win|pass] now. But {he} stopped. "Are you hurt?" {he} asked.
{hero} [saw that the {fast} was in pain|looked at {goal}]. Then {he} went to help.
"I can win now," thought {hero}. But {he} [turned around|went back] to help the {fast}.

"Why do you help me?" asked the {fast}. "[You need help|A friend is more than a race]," \
said {hero}.
{hero} helped the {fast} to stand up. "[Lean on me|Hold on to me]," {he} said.

[Side by side|Slowly], {hero} and the {fast} walked to {goal}. They [came in|finished] together.
They went on together, step by step. All the animals cheered when they came to {goal}.

# "I am sorry that I laughed at you," said the {fast}. "You are [kind and strong|the real winner]."
The {fast} hung its head. "I was [mean|too proud]. I am sorry, {hero}."

The owl gave a [gold leaf|crown of flowers] to both of them.
"There are two winners today," said the old owl.
All the animals [danced|sang] and ate {beast.food} and cake.

{hero} and the {fast} were [good |]friends from that day on.
{hero} [learned|found out] that a kind heart is better than fast feet.
After that, the {fast} never laughed at anyone again.
""",
    "feeding the hungry": """
{one_day}, {hero} went to look for {beast.food}. {He} [found|had] just enough for lunch.
{one_day}, {hero} had [a basket|a little bag] of {beast.food} for {his} lunch.
{one_day}, {hero} took some {beast.food} and went for a long walk.

? @sight

On the path sat {hungry.a}. It looked thin and sad.
There {he} met {hungry.a}. It was so hungry that it could not [walk|move].
Then {he} saw {hungry.a} {wild_spot}. It looked weak.

"[What is wrong|Why are you so sad], {hungry}?" asked {hero}.
"[Hello|Good day], {hungry}," said {hero}. "[Are you sick|Is something wrong]?"

"I [am so hungry|have not eaten for two days]," said the {hungry}.
"I cannot find any food," said the {hungry} in a [weak|small] voice.

# {hero} looked at {his} {beast.food}. {He} was hungry too.
{hero} had only a little food. But {he} [felt sorry for|wanted to help] the {hungry}.

"[Here|Please], eat with me," said {hero}. {He} gave half of {his} lunch to the {hungry}.
{hero} [smiled|thought for a moment]. "We can share," {he} said, and they ate together.

"[Thank you|You are very kind]," said the {hungry}. "I will not forget [this|you]."
The {hungry} ate it all and looked [better|stronger]. "[Thank you|Thank you, {hero}]," it said.

# [Later|After lunch], {hero} [walked on|went on] into the woods. [Soon|Then] {he} was lost.
Some days later, {hero} went too far [from home|into the woods]. It got dark, and {he} was lost.
On the way home, fog came up. {hero} could not see the path.

"[Where am I|Which way is home]?" {he} cried. [Every tree looked the same|{He} was afraid].
{hero} [sat down|looked around]. "I [cannot find|will never find] my way home," {he} said.

Then {he} heard a voice. "{hero}, I can help you!" It was the {hungry}!
[Just then|Suddenly], {his} friend the {hungry} came to help.

The {hungry} had not forgotten {him}. "[You shared your food|You were kind to me]," it said.
{hero} was so glad to see the {hungry}.

The {hungry} {hungry.repay}. {hero} followed.
{hero} [stayed close|was not afraid anymore]. The {hungry} {hungry.repay}.

# Soon {hero} was home [again|safe and sound]. "[Thank you|You saved me], my friend!" {he} said.
At last {hero} saw {his} home. "[We are here|Thank you]!" {he} cried with joy.

? Then they had dinner together.
{hero} asked the {hungry} to come and eat with {him} [every day|soon].

{hero} [learned|found out] that kindness [comes back|is never lost].
{hero} and the {hungry} were friends [from that day on|for the rest of their lives].
A little lunch had made a big friend.
""",
    "fear of the dark": """
{hero} was afraid of the dark.
{hero} liked the day, but {he} did not like the night.
Every evening, when the sun went down, {hero} was afraid.

"The dark is so big," {he} [said|told {his} mother].
{He} always [went home early|hid] before it got dark.
{He} thought that something was [hiding|waiting] in the dark.

? The other animals [laughed|smiled]. "It is only night," they said.
{His} mother hugged {him}, but {he} was still afraid.

# {one_day}, {hero} went to see {his} friend {pal} the {beast2}. They played too long.
{one_day}, {hero} was {play3}. {He} forgot the time.
{one_day}, {hero} and {his} friend {pal} the {beast2} walked far from home.

[Soon|Before {he} knew it], the sun was gone. It was [dark|very dark]!
When {hero} looked up, it was [dark|night]. The way home was long.

"How will I get home?" {hero} cried. {He} [began to shake|was so scared].
{He} heard [a hoot|a crack|a soft noise] and jumped. "[Who is there?|Help!]" {he} called.

# Then an old owl [spoke|sat down next to {him}]. "[Why do you cry|What is wrong], little \
{beast}?" \
asked the owl.
"Do not be afraid," said a [kind |soft |]voice. It was an old owl.

"I am afraid of the dark," said {hero}.
"It is dark, and I want to go home," {hero} said.

"[Look up|Look around]," said the owl. "The night has its own lights."
"The night is not empty," said the owl. "[Look|Open your eyes], and you will see."

{hero} [looked|opened {his} eyes]. {He} saw {nightlight}! They [shone|twinkled] in the dark.
Then {hero} saw {nightlight}. "[How beautiful|They are so pretty]!" {he} said.

? "[The night is as soft as a blanket|The stars watch over us]," said the owl.
The crickets sang, and the air was cool and sweet.

# With the lights to show the way, {hero} [walked|went] home. {He} was not so afraid [now|anymore].
The owl flew ahead, and {hero} followed the lights all the way home.

{His} mother was waiting. "I was [so |]worried!" she said. {hero} told her [everything|all about \
it].
"I was in the dark, and I was brave!" {hero} told {his} mother.

After that, {hero} liked the night.
After that, {hero} often sat outside in the evening to look at the lights.
{hero} [learned|found out] that even the dark has [light|something beautiful] in it.
From then on, {hero} was not afraid of the dark.
""",
    "storm": """
[One day|One evening], a big storm came. The wind [howled|roared], and the trees bent down.
[One day|One evening], the sky turned black. A storm was coming!
[One day|One night], it rained and rained. The wind was very strong.

{hero} was safe and [warm|dry] at home. {He} had [lots of|enough] {beast.food} to eat.
{hero} [sat|stayed] at home and listened to the [wind|rain].

Then {he} heard a voice outside. It was {pal} the {beast2}, wet and cold.
[Suddenly|All at once], there stood {pal} the {beast2}, wet from head to toe.
Then {pal} the {beast2} came [along|running], wet from nose to tail.

"[Please help me|Please let me in]," said {pal}. "The storm [broke|took] my home."
"My home is gone," {pal} said. "[I have nowhere to go|The wind blew it away]."

? {hero} did not have much room.
{hero} was surprised, but {he} [jumped up at once|smiled at {pal}].

"[Come in|Come in quickly]," said {hero}. "You can stay [with me|here]."
"You can stay with me until the storm is over," said {hero}.

# {hero} gave {pal} a warm blanket and some {beast.food}.
{hero} [made a bed of leaves|made room] for {pal}, and they shared the {beast.food}.

All night, the storm [roared|went on], but they told stories and were not afraid.
"[Are you afraid|Do you hear the thunder]?" asked {pal}. "Not when you are here," said {hero}.
They sang {song} until they fell asleep.

# In the morning, the storm was over. {pal}'s home was [broken|full of water].
The next day, the sun came out. They went to look at {pal}'s home. It was broken.

"[Where can I live now|What will I do]?" said {pal}. "[We will build a new one|I will help you]," \
said {hero}.
{pal} began to cry. "[Do not cry|Do not be sad]," said {hero}. "We can build it again."

They [brought|carried] sticks, leaves, and moss. They worked [all day|for three days].
{hero} called the other animals. They all brought [sticks and leaves|something] and helped.

[At last|Soon], {pal} had a new home. It was [stronger|even better] than the old one.
When the new home was ready, {pal} [danced|jumped] for joy.

"[Thank you|You are a true friend], {hero}," said {pal}.
"How can I thank you?" asked {pal}. "[Just be my friend|Come and play]," said {hero}.

# From that day on, {hero} and {pal} were [best|good] friends.
{hero} [learned|found out] that a home is big enough when the heart is big.
When the next storm came, they sat together, safe and [dry|warm].
""",
    "winter food": """
It was fall. [The leaves were red and gold|The days grew short]. All the animals \
gathered food for the winter.
Winter was coming. Every day, {hero} gathered {beast.food}.

But {pal} the {beast2} did not work. {pal} only [played|slept] all day.
{hero} worked [hard|from morning to night], but {his} friend {pal} the {beast2} [played|slept].

"[Come and play|Let us play {game}], {hero}!" said {pal}. "Winter is far away."
"Why do you work so hard?" asked {pal}. "[It is warm|The sun is shining]!"

"I must get ready for the winter," said {hero}. "[You should too|And so should you]."
"[Snow will come|Soon it will be cold]," said {hero}. "You should gather food too, {pal}."

{pal} [laughed|yawned]. "[Tomorrow|I will do it later]," said {pal}.
"You worry too much," said {pal}, and went away.

? {hero} filled {his} home with {beast.food}.

# Then the snow came. [Everything was white|The ground was hard and white]. {pal} had no food.
One morning, the world was white. {pal} looked for food, but there was [nothing|only snow].

[Cold and hungry|Tired and hungry], {pal} came to {hero} for help.
{hero} was eating {beast.food} when {pal} came, [cold and thin|cold and sad].

"I should have listened to you," said {pal}. "I have nothing to eat."
"[I am so hungry|I did not gather any food]," said {pal} and [cried|looked at the ground].

{hero} could have said, "I told you so!" But {he} [did not|was kind].
{hero} looked at {his} food. It was [just |]enough for two.

# "[Come in|Sit down]," said {hero}. "[We can share|I have enough for both of us]."
{hero} took {pal} by the hand. "You are my friend," {he} said. "[Eat|Come and eat] with me."

"[Thank you|You are so good to me]," said {pal}. "Next year I will [work|help] too."
{pal} ate and felt better. "[Next time|Next fall], I will work with you," said {pal}.

They [spent|passed] the long winter together, warm and [happy|safe].
All winter, they shared the {beast.food} and [told stories|sang songs].

When fall came again, {pal} [was the first to work|gathered more food than anyone].
And the next year, {pal} kept the promise. They gathered the food together.

{pal} learned that work comes first, and {hero} learned that sharing [is sweet|warms the heart].
{hero} and {pal} were [best|good] friends in the snow and in the sun.
""",
    "broken wing": """
{one_day}, {hero} found a little bird on the ground. It [could not fly|had hurt its wing].
{one_day}, {hero} heard a soft peep. A little {color} bird lay in the grass.

"What [happened|is wrong]?" asked {hero}. "My wing hurts," said the bird. "I cannot fly."
"[Please help me|Please be kind]," said the bird. "My wing is hurt." "I will help you," said {hero}.

{hero} carried the bird home [very carefully|on {his} back].
[Gently|With great care], {hero} took the bird home.

# {He} made a soft bed of [moss|feathers|leaves] for the bird and gave it [seeds|water|berries].
{hero} tied a [leaf|blade of grass] around the wing, and {pal} the {beast2} brought some seeds.

Every day, {hero} [looked after|sat with] the bird and told it about {sight}.
{hero} sang {song}, and the bird [listened|sang along].

? The bird was sad. "I miss the sky," it said.
{hero} did not go out to play. {He} stayed with {his} new friend.

After some time, the wing was [better|strong again].
Day by day, the wing [got better|grew stronger].

# "Try to fly," said {hero}. The bird flapped its wings, but it fell.
The bird wanted to fly, but it was afraid. "[What if I fall|Can I do it]?" it said.

"[Try again|Be brave]. I will catch you," said {hero}.
"You can do it," said {hero}. "[I believe in you|Just try]."

The bird [flapped its wings|took a deep breath]. Up, up, up it went! It could fly!
Then the bird spread its wings and flew, higher and higher, into the blue sky.

{hero} was happy for the bird, but {he} was a little sad too. "Goodbye, my friend," {he} said.
"[Thank you|I will never forget you], {hero}!" called the bird. {hero} waved.

# {hero} missed the bird. But [in spring|some weeks later], {he} heard a song. The bird was back!
Every morning after that, the little bird came and sang for {hero}.
Some days later, the bird came back with {treasure.a}. "This is for you," it said.

{hero} [learned|found out] that a friend can fly away and still be a friend.
{hero} and the bird were friends for [many years|a long time].
Helping the little bird had made {him} very happy.
""",
    "small helper": """
{hero} was small, and the other animals did not let {him} [help|play with them].
{hero} was the smallest {beast} of all. "[I am too small to help|Nobody needs me]," {he} thought.
{hero} wanted to help the big animals, but they said, "You are too small."

"[Go and play|You can help when you are big]," said {big.a}.
{big.A} [laughed|smiled] and said, "What can a little {beast} do?"

? {hero} [went away|walked away] with {his} head down.
"Someday you will see," said {hero}.

# {one_day}, there was a loud cry. The {big} was in trouble!
{one_day}, {hero} heard a loud [cry|noise]. The {big} was in trouble.
{one_day}, the {big} did not come to the river. {hero} went to look.

The {big} {big.trouble}.
"[Look|Oh no]!" said the others. The {big} {big.trouble}.

"Help! [Help me|Please help me]!" cried the {big}.
The other animals came and [pulled|tried], but they could not help the {big}.
"[We cannot help|We are too big]," said the other animals. They did not know what to do.

"[I can do it|Let me try]!" said {hero}. [The others|They all] looked at {him}.
"I am small," said {hero}. "Maybe that is [good|what you need]!"

# {hero} went close to the {big} and {big.help}.
"[Hold still|Do not move]," said {hero} to the {big}. Then {he} {big.help}.
[Slowly and carefully|Very carefully], {hero} {big.help}.

[Soon|At last], the {big} was [happy|fine] again!
It worked! The {big} was [happy|fine] again.

"[Thank you|You saved me], {hero}," said the {big}. "I was wrong. You are a great helper."
"You are small, but you have a [brave|big] heart," said the {big}.

All the animals [cheered|danced]. "Hooray for {hero}!" they [shouted|cried].
The {big} let {hero} ride on its back, and all the animals cheered.

# From then on, nobody said that {hero} was too small.
{hero} [learned|found out] that even a small friend can be a big help.
After that, {hero} and the {big} were [good|best] friends.
{hero} felt [tall|big and strong], even if {he} was a little {beast}.
""",
    "moon": """
[One night|One warm night|One clear night], {hero} looked up at the [big |round |]moon and wanted \
to touch it.
Every night, {hero} looked at the moon. {He} wanted to [touch|hold] it.

"Nobody can reach the moon," said {pal} the {beast2}.
"How can I get to the moon?" {he} asked {his} friend {pal} the {beast2}.

"[I will try|I can do it]," said {hero}. {He} climbed [a hill|a tall rock]. The moon was still \
too far.
So {hero} climbed [a hill|a tall rock] and reached up. But the moon was too high.

? {hero} [jumped|stood on {his} toes], but it [did not help|was no use].
"Come down, moon!" [called|cried] {hero}. The moon did not come.

"I will help you," said {pal}. {hero} stood on {pal}'s back, but it was not enough.
"Let me [sit|stand] on your back," {hero} said to {pal}. But still the moon was too far.

# Then {hero} saw the moon in the [water|pond|lake]! "[Look|Look, {pal}]! It fell down!" {he} cried.
On the way home, they came to a pond. There was the moon, in the water!

{hero} [reached out|put in a foot]. Splash! The moon broke into [little|many] pieces.
{hero} jumped at it. Splash! {He} got wet, and the moon was gone.

"Oh no, I broke the moon!" [cried|said] {hero}.
{hero} was [sad|scared]. "Now the moon is broken," {he} said.

{pal} laughed [kindly|softly]. "[Wait|Wait and see]," said {pal}.
"[Look up|Look], {hero}," said {pal}. "The moon is still in the sky."

# The water was still again. There was the moon, [whole|round and bright]!
Soon the water was smooth, and the moon [came back|shone there again].

"[It was only a picture in the water|The water was like a mirror]," said {hero} and laughed.
"The moon is for everyone," said {pal}. "[It belongs in the sky|We can look at it together]."

They sat [by|next to] the water and looked at the moon until they fell asleep.
{hero} did not have the moon. But {he} had a friend, and that was [better|enough].
{hero} [learned|found out] that some things are pretty even when you cannot hold them.
After that, {hero} said good night to the moon every evening.
""",
}


BABY_PLOTS: dict[str, str] = {
    "learning from mother": """
{one_day}, {pupil.mother} said, "Today you will learn to {pupil.skill}."
All the others could {pupil.skill}, but {hero} could not. {He} was too small.
{hero} wanted to {pupil.skill} like {pupil.mother}.
{one_day}, {hero} said, "Mother, I want to {pupil.skill} [too|just like you]!"

"[Watch me|Do what I do]," said {pupil.mother}.
{pupil.mother} [showed {him} how|went first]. It looked so easy!
"[Are you ready|Shall we try], {hero}?" asked {pupil.mother}. "Yes!" said {hero}.

# {hero} tried, but {pupil.fail}.
The first time, {pupil.fail}.
{hero} [closed {his} eyes|counted to three] and tried. Oh no! This time, {pupil.fail}.

"[Ouch|Oh]! I [cannot do it|will never learn to {pupil.skill}]," said {hero}.
{hero} was [sad|ashamed]. "[I am too small|It is too hard]," {he} said.

? {pal} the {beast} laughed. "You look so funny!" said {pal}.
{pal} the {beast} [saw it|came by]. "[It took me a long time too|I fell many times]," said {pal}.
{hero} hid {his} face [for a while|and did not speak].

"[Try again|Do not give up], little one," said {pupil.mother}. "{pupil.tip}."
{pupil.mother} [kissed|hugged] {him}. "I could not do it at first," she said. "{pupil.tip}."
"{pupil.tip}," said {pupil.mother}.

# So {hero} tried [again|again and again]. {He} tried [every day|in the sun and in the rain].
{hero} thought about {his} mother's words. {He} [took a deep breath|tried once more].
The next [day|morning], {hero} went back to the {pupil.place} and tried again.

And then, [at last|suddenly], {he} {pupil.past}!
This time, {hero} {pupil.past}, [just like {his} mother|all by {himself}]!

"[Look, Mother|Look at me]! I can {pupil.skill}!" {he} [cried|called].
"[I did it|I am {pupil.ing}]!" {he} [cried|called]. {He} was so happy.

? "[Well done|Hooray], {hero}!" said the other animals.
All the animals at the {pupil.place} [cheered|clapped].

"I am [very |so |]proud of you," said {pupil.mother}.
{pupil.mother} [hugged {him}|smiled]. "I knew that you could {pupil.skill}," she said.

# {hero} [learned|found out] that [you must try more than once|every start is hard].
From then on, {hero} loved {pupil.ing} more than anything.
That night, {hero} fell asleep close to {his} mother, tired and [proud|happy].
Soon {hero} and {his} mother were {pupil.ing} together every day.
""",
    "wandering off": """
"Stay close to me, {hero}," {pupil.mother} always said. "The world is big, and you are small."
"Do not go far from the {pupil.place}," {pupil.mother} [always said|told {him} every day].

{one_day}, {hero} saw {sight}. {He} [went closer|wanted to see more].
{one_day}, {hero} was [bored|curious]. {He} walked away to look at {sight}.
{one_day}, {pupil.mother} was [asleep|busy]. {hero} [walked off|went off] all alone.

Then {he} saw {sight2}, and {he} went on and on.
[Step by step|Little by little], {he} went farther and farther away.
"I will only go a little way," {he} thought. But {he} [forgot the time|went too far].

# Soon {hero} did not know where {he} was. "Mother!" {he} [called|cried]. Nobody came.
{hero} looked [back|around]. The {pupil.place} was [gone|nowhere to be seen]! {He} was lost.

{He} sat down {wild_spot} and [cried|began to cry].
It got dark and cold. {hero} was [afraid|very scared].
{He} [was hungry and tired|missed {his} mother so much].

Then [along came|came] {beast.a} named {pal}. "Why are you crying, little {pupil}?" asked {pal}.
"Are you lost, little {pupil}?" asked a soft voice. It was {pal} the {beast}.

"I want to go home to {pupil.mother}," said {hero}. "[I went too far|I did not listen to her]."
"I lost my way," said {hero}. "[I live|My home is] by the {pupil.place}."

"[I know that {pupil.place}|I know the way]," said {pal}. "[Come|Walk] with me."
"Do not cry," said {pal}. "I will take you to the {pupil.place}."

? On the way, {pal} [told {him} a funny story|sang {song}], and {hero} felt better.
They crossed a [field|stream] and climbed a hill.

# At last they came to the {pupil.place}. {pupil.mother} ran to meet them!
"{hero}!" [called|cried] a voice. It was {pupil.mother}! She had looked for {him} everywhere.

{pupil.mother} [hugged|kissed] {hero} again and again. "I was so worried," she said.
{hero} ran to {his} mother and hid {his} face [against her side|close to her].

"I am sorry, Mother," said {hero}. "[I will stay close now|I will listen to you next time]."
"I will never go off alone again," {hero} said.

They thanked {pal}, who [stayed for dinner|smiled and went home].
"Thank you for your help, {pal}," said {pupil.mother}. "[You are always welcome here|You are so \
kind]."

{hero} learned to listen to {his} mother.
From that day on, {hero} stayed close to {pupil.mother}.
That night, {hero} [slept|cuddled] close to {his} mother, [safe and warm|happy to be home].
After that, {pal} often came to the {pupil.place} to play with {hero}.
""",
}

PLOTS: dict[str, dict[str, str]] = {
    "child": CHILD_PLOTS,
    "animal": ANIMAL_PLOTS,
    "baby": BABY_PLOTS,
}
