"""Stop words: the articles, pronouns, prepositions, conjunctions, auxiliary verbs and question words of the model's languages.

They say how a question is asked and not what it is about. Each belongs to a closed class, so that no list contains a name or a
thing. Words of scripts without spaces between words are in `PARTICLES`, which separate the words of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from catchment.ledger import plain_words

_LISTS: Mapping[str, str] = {
    "en": """
        a an the this that these those some any each every either neither no none such own same other another both all
        i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our ours
        ourselves they them their theirs themselves one ones someone somebody anyone anybody everyone everybody something
        anything everything nothing who whom whose which what when where why how whether there here
        of in on at by for from to into onto with without within about against between among through during before after
        above below over under up down out off until since as than per via
        and or but nor so if because while although though unless then
        am is are was were be been being do does did done doing have has had having will would shall should can could may
        might must ought need not only just also too very much many more most few less least again still yet ever never
        i'm you're he's she's it's we're they're i've you've we've they've i'd you'd we'd they'd i'll you'll we'll they'll
        isn't aren't wasn't weren't don't doesn't didn't haven't hasn't hadn't won't wouldn't can't cannot couldn't
        shouldn't that's what's who's where's when's how's there's here's let's s t re ve ll d m
    """,
    "de": """
        der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner keines dieser diese dieses
        diesen diesem jener jene jenes jeder jede jedes jeden jedem alle allen aller alles man ich mich mir mein meine
        meinen meinem meiner meines du dich dir dein deine deinen deinem deiner er ihn ihm sein seine seinen seinem seiner
        sie ihr ihre ihren ihrem ihrer es wir uns unser unsere unseren unserem unserer euch euer eure sich selbst einander
        wer wen wem wessen was welche welcher welches welchen welchem wann wo wohin woher warum wieso weshalb wie wieviel
        ob da dort hier hin her in im ins an am ans auf aus bei beim mit nach seit von vom zu zum zur durch für gegen ohne
        um über unter vor hinter neben zwischen während wegen trotz bis ab pro
        und oder aber denn sondern weil dass daß damit wenn als obwohl bevor nachdem sowie sowohl weder noch
        bin bist ist sind seid war warst waren wart gewesen habe hast hat haben habt hatte hatten hattest gehabt werde
        wirst wird werden werdet wurde wurden worden kann kannst können könnt konnte konnten könnte muss musst müssen
        müsst musste mussten soll sollst sollen sollte sollten will willst wollen wollte wollten darf darfst dürfen durfte
        mag mögen möchte möchten lassen nicht nur auch schon so sehr mehr viel wieder immer nie mal ja nein doch etwas
        nichts
    """,
    "fr": """
        le la les l un une des du de d ce cet cette ces celui celle ceux celles mon ma mes ton ta tes son sa ses notre nos
        votre vos leur leurs je j me m moi tu te t toi il elle on nous vous ils elles se s soi lui eux y en qui que qu
        quoi dont où quand comment pourquoi combien quel quelle quels quelles lequel laquelle lesquels lesquelles
        à au aux dans par pour sur sous avec sans chez vers entre depuis pendant avant après contre jusque jusqu dès
        et ou mais donc or ni car si comme lorsque puisque parce afin
        suis es est sommes êtes sont était étais étaient été être ai as a avons avez ont avait avais avaient eu avoir sera
        seront serait fait faut peut peux peuvent pouvait pouvoir doit dois doivent devait devoir veux veut vouloir
        ne n pas plus moins très aussi bien tout toute tous toutes même ici là ça c cela ceci rien jamais toujours encore
        aucun aucune chaque quelque quelques
    """,
    "es": """
        el la lo los las un una unos unas al del este esta estos estas ese esa esos esas aquel aquella aquello aquellos
        aquellas esto eso mi mis tu tus su sus nuestro nuestra nuestros nuestras vuestro vuestra yo me mí tú te ti él ella
        ello ellos ellas nosotros vosotros usted ustedes se sí le les nos os que qué quien quién quienes cual cuál cuales
        cuáles cuando cuándo donde dónde adonde cómo como cuánto cuánta cuántos cuántas por para porque
        a ante bajo con contra de desde en entre hacia hasta según sin sobre tras durante y e o u pero sino ni si aunque
        mientras pues
        soy eres es somos son era eran eras fue fueron sido ser estoy estás está estamos están estaba estaban estado estar
        he has ha hemos han había habían hay haber tengo tienes tiene tenemos tienen tenía tener puedo puedes puede pueden
        podía poder debo debes debe deben deber hace hacen hacer
        no muy más menos también ya aún todo toda todos todas otro otra otros otras cada algo alguien algún alguna nada
        nadie ningún ninguna aquí ahí allí
    """,
    "it": """
        il lo la i gli le l un uno una del dello della dei degli delle al allo alla ai agli alle dal dallo dalla dai dagli
        dalle nel nello nella nei negli nelle sul sullo sulla sui sugli sulle col questo questa questi queste quello quella
        quelli quelle quel quegli mio mia miei mie tuo tua tuoi tue suo sua suoi sue nostro nostra nostri nostre vostro
        vostra loro io me mi tu te ti lui lei egli ella esso noi ci ce voi vi ve essi si sé ne che chi cui quale quali
        quanto quanta quanti quante quando dove come perché cosa
        di a da in con su per tra fra sotto sopra senza verso contro dopo prima durante fino e ed o od ma però né se
        anche quindi mentre
        sono sei è siamo siete era erano eri stato stata stati essere ho hai ha abbiamo avete hanno aveva avevano avuto
        avere sto sta stanno posso puoi può possono potere devo devi deve devono dovere voglio vuoi vuole fa fare
        non più meno molto poco già ancora tutto tutta tutti tutte ogni altro altra altri altre qui qua lì là nulla niente
    """,
    "pt": """
        o a os as um uma uns umas do da dos das no na nos nas ao aos à às pelo pela pelos pelas num numa este esta estes
        estas esse essa esses essas aquele aquela aqueles aquelas isto isso aquilo meu minha meus minhas teu tua seu sua
        seus suas nosso nossa nossos nossas eu me mim tu te ti você vocês ele ela eles elas nós se si lhe lhes que quem
        qual quais quando onde como porque porquê quanto quanta quantos quantas cujo cuja
        de em para por com sem sob sobre entre até desde contra após antes durante e ou mas nem se embora enquanto pois
        sou és é somos são era eram foi foram sido ser estou está estamos estão estava estavam estado estar tenho tem
        temos têm tinha tinham ter há havia haver posso pode podem podia poder devo deve devem dever faz fazer
        não muito mais menos também já ainda todo toda todos todas outro outra outros outras cada algo alguém algum alguma
        nada ninguém nenhum nenhuma aqui ali lá
    """,
    "nl": """
        de het een deze dit die dat elk elke ieder iedere alle alles geen mijn jouw je zijn haar ons onze jullie hun ik me
        mij jij jou u uw hij hem zij ze wij we zich zelf men wie wat welk welke wanneer waar waarom hoe hoeveel waarheen
        er daar hier in op aan bij met van voor naar om over onder uit te tot door tegen tussen na sinds zonder tijdens
        en of maar want omdat dus als toen terwijl hoewel noch
        ben bent is was waren geweest heb hebt heeft hebben had hadden gehad word wordt worden werd werden geworden kan
        kunt kunnen kon konden moet moeten moest moesten mag mogen mocht wil wilt willen wilde zal zullen zou zouden doe
        doet doen niet ook nog al wel zo zeer veel meer meest weer ooit nooit iets niets iemand niemand
    """,
    "pl": """
        ten ta to ci te tego tej tych tym tymi tę tą tamten tamta tamto który która które którego której których którym
        któremu którą którzy każdy każda każde mój moja moje moich mojego mojej twój twoja twoje nasz nasza nasze wasz swój
        swoja swoje jego jej ich ja mnie mi mną ty ciebie cię ci tobie on ona ono go mu nim nią niego niej jemu my nas nam
        nami wy was wam oni one im nimi się siebie sobie kto kogo komu co czego czemu czym kiedy gdzie dokąd skąd dlaczego
        czemu jak jaki jaka jakie jakiego jakiej jakich ile czy
        w we z ze na do od ode dla po pod nad przed za przy przez bez o u między podczas i oraz a ale lub albo ani ni że
        żeby aby bo ponieważ gdy gdyby jeśli jeżeli choć więc
        jestem jesteś jest jesteśmy są był była było byli były być będę będzie będą mam masz ma mamy mają miał miała mieć
        może mogę możesz mogą można musi muszę trzeba należy nie tak tylko też także już jeszcze bardzo więcej mniej tu
        tam coś nic nikt ktoś wszystko wszyscy wszystkie
    """,
    "ru": """
        я меня мне мной ты тебя тебе тобой он его ему им нём нем она её ее ей ней оно мы нас нам нами вы вас вам вами они
        их ими них себя себе собой мой моя моё мое мои моего моей моих твой твоя твои наш наша наше наши нашего ваш ваша
        ваши свой своя своё свое свои своего своей этот эта это эти этого этой этих этом этому тот та то те того той тех
        том тому который которая которое которые которого которой которых каждый каждая весь вся всё все всего всех сам
        сама сами кто кого кому кем что чего чему чем чём когда где куда откуда почему зачем как какой какая какое какие
        какого какой каких сколько чей чья ли
        в во на с со из изо к ко от ото до для по под подо над перед за при через без безо о об обо у про между около
        после и а но или либо ни что чтобы если потому хотя пока когда раз
        есть был была было были быть буду будет будут будем могу может можно могут мог надо нужно нельзя должен должна
        не нет да бы же уже ещё еще только тоже также очень более менее тут там здесь так такой такая ничего никто нибудь
    """,
    "tr": """
        bir bu şu o bunlar şunlar onlar ben beni bana benim sen seni sana senin onu ona onun biz bizi bize bizim siz sizi
        size sizin onları onlara onların kendi kim kimi kime kimin ne neyi neye neden niçin niye nasıl nerede nereye
        nereden hangi hangisi kaç zaman her bazı hiç hiçbir tüm bütün mı mi mu mü mıdır midir
        ile için gibi kadar göre doğru karşı önce sonra beri dolayı rağmen üzere ve veya ya da de ki ama fakat ancak çünkü
        eğer ise hem
        var yok değil idi imiş oldu olan olarak olur olmak mıyım musun çok daha en az şey burada orada
    """,
    "ar": """
        في من إلى على عن مع بعد قبل بين تحت فوق عند حتى منذ خلال بدون ضد حول ب ل ك و أو ثم لكن بل أن إن إذا لو لأن كي
        هذا هذه ذلك تلك هؤلاء أولئك الذي التي الذين اللذان ما ماذا من متى أين كيف لماذا كم أي هل أنا أنت أنتم هو هي هم هن
        نحن كان كانت كانوا يكون تكون ليس ليست لم لن لا قد كل بعض غير أيضا فقط هنا هناك
    """,
    "ko": """
        나 나는 내 내가 너 너는 우리 우리는 그 그는 그녀 이 저 이것 그것 저것 누구 누가 무엇 무엇을 뭐 언제 어디 어디에
        어디서 왜 어떻게 어떤 어느 몇 및 또는 그리고 그러나 하지만 그래서 때문에 위해 대한 대해 에서 에게 부터 까지
        은 는 이 가 을 를 에 의 와 과 로 으로 도 만 있다 있는 없다 없는 하다 하는 했다
        한 할 되다 되는 됩니까 입니까 인가요 나요 수 것
    """,
}
"""By ISO 639-1 code. Not folded."""

PARTICLES = re.compile(
    "について|ください|でしょうか|ですか|ますか|ました|ません|どうやって|どうして|どのように|いつ|どこ|なぜ|なに|どの|どれ|です|ます|した|して|する|から|まで|より|との|には|では|への"
    "|[はがをにでとのもへやか]|什么时候|为什么|怎么样|怎么|什么|哪里|哪些|哪个|多少|如何|是否|可以|应该|我们|你们|他们|我的|[的了是在吗呢吧我你他她们和与或从到把被对]"
    "|อย่างไร|ทำไม|เมื่อไหร่|เมื่อไร|ที่ไหน|อะไร|เท่าไหร่|ของ|และ|หรือ|ที่|ใน|จาก|กับ|เป็น|คือ|ไหม"
)
"""Grammar between the words of a Japanese, Chinese or Thai sentence."""


@cache
def _stop_words() -> Mapping[str, Collection[str]]:
    """Return the stop words by language. A contraction is several words."""
    return {code: frozenset(plain_words(words).split()) for code, words in _LISTS.items()}


def spoken(words: Sequence[str], languages: Collection[str]) -> dict[str, set[str]]:
    """Return the languages of which a text has most stop words, with these. `words`: folded. `languages`: those in question."""
    found = {code: {word for word in words if word in _stop_words().get(code, ())} for code in languages}
    most = max(map(len, found.values()), default=0)
    return {code: grammar for code, grammar in found.items() if most and len(grammar) == most}
