"""Words that name no subject: a question is freed of them, because nobody is looking for the messages that hold them.

They are in the index like all others, and rarity in the conversation decides how much most words count. These lists are for
what rarity cannot tell: "thanks" may stand in one message of a thousand and still asks for nothing.
"""

from __future__ import annotations

from conversations.context.words import query_words

_FUNCTION_WORDS = """
a about am an and any are aren as at be been being but by can could couldn did didn do does doesn doing don for from had has
hasn have haven having he her hers him his how i if in into is isn it its just ll may me might mine must my nor not of off on
or our ours out over re s shall she should shouldn so some t than that the their theirs them then there these they this those
to too up us ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn you
your yours d m
"""

# What thanks, greets, agrees, and what asks for another form of the last answer.
_COURTESY = """
absolutely again agreed alright amazing another answer awesome back better brilliant bye continue cool correct definitely
detail elaborate else exactly example excellent explain few fantastic fine get give glad go going good goodbye got great hello
help helpful hey hi hm hmm indeed interesting keep know least less let like list long longer lovely make mean more most much
need next nice no now ok okay once one only other perfect please pls proceed really rephrase repeat reply rewrite right same
say see shorten shorter show simplify sorry still summarise summarize super sure take talk tell thank thanks thing think thx
translate try understand use want way welcome well wonderful wow write wrong yeah yep yes yet
"""

_OTHER_LANGUAGES = """
bitte danke dankeschön gut ja nein genau weiter mach toll super klar hallo tschüss und oder aber der die das ein eine ist
merci oui non bonjour salut continue d'accord bien parfait le la les un une des est et ou mais que qui
gracias sí no hola vale bueno perfecto sigue continúa por favor el los las un una es y o pero que
grazie sì ciao va bene perfetto continua prego il lo gli una è e ma che
obrigado obrigada sim não olá tudo bem certo os as um uma é mas que
спасибо да нет хорошо ладно привет пожалуйста продолжай продолжайте дальше и или но что это
谢谢 感谢 你好 好的 好 是的 继续 请 嗯
ありがとう ありがとうございます はい いいえ こんにちは 続けて お願いします
감사합니다 고마워 고마워요 네 아니요 안녕하세요 계속
شكرا نعم لا مرحبا
dziękuję tak nie cześć dank je bedankt nee graag tack hej teşekkürler evet hayır merhaba
"""


def _lexemes(words: str) -> frozenset[str]:
    return frozenset(word.lexeme for word in query_words(words))


FUNCTION_LEXEMES = _lexemes(_FUNCTION_WORDS)
# A question of nothing but these needs nothing; beside others they count as any word does.
COURTESY_LEXEMES = _lexemes(f"{_COURTESY} {_OTHER_LANGUAGES}") | FUNCTION_LEXEMES
