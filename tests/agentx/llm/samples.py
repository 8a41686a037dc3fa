"""Texts in many scripts on which token counts are checked."""

from __future__ import annotations

import base64
import hashlib
import inspect

from agentx.llm import client

ENGLISH = (
    "The committee met on Thursday to decide whether the old bridge should be repaired or replaced. Nobody doubted "
    "that something had to be done before winter, but the engineers and the treasurer disagreed about the price. "
    "After three hours they agreed to close one lane, to measure the cracks every week, and to meet again in May. "
)
CHAT = (
    "Sure! Run `pip install -r requirements.txt`, then start the server with `python manage.py runserver 0.0.0.0:8000`. "
    "If you see `ModuleNotFoundError: No module named 'yaml'`, your virtualenv isn't active (try `source .venv/bin/activate`). "
    'The config lives in ~/.config/app/settings.json; set {"debug": true, "port": 8080} and restart. '
)
RUSSIAN = (
    "Комитет собрался в четверг, чтобы решить, ремонтировать старый мост или строить новый. Никто не сомневался, что "
    "до зимы нужно что-то сделать, но инженеры и казначей не сошлись в цене. Через три часа договорились закрыть одну "
    "полосу, каждую неделю измерять трещины и встретиться снова в мае. "
)
ARABIC = (
    "اجتمعت اللجنة يوم الخميس لتقرر ما إذا كان ينبغي إصلاح الجسر القديم أو بناء جسر جديد. لم يشك أحد في أن شيئا ما يجب "
    "أن يتم قبل الشتاء، لكن المهندسين وأمين الصندوق اختلفوا حول السعر. وبعد ثلاث ساعات اتفقوا على إغلاق مسار واحد. "
)
CHINESE = (
    "委员会在星期四开会，讨论旧桥应该修理还是重建。没有人怀疑冬天之前必须采取行动，但是工程师和财务主管对费用的看法不同。"
    "三个小时以后，他们同意先关闭一条车道，每个星期测量裂缝，并且在五月再次开会。"
)
JAPANESE = (
    "委員会は木曜日に集まり、古い橋を修理するか建て直すかを話し合いました。冬が来る前に何かをしなければならないことは誰も疑いませんでしたが、"
    "技術者と会計係は費用について意見が合いませんでした。三時間後、車線を一つ閉じて、毎週ひび割れを測ることにしました。"
)
KOREAN = (
    "위원회는 목요일에 모여서 낡은 다리를 고칠지 새로 지을지 의논했습니다. 겨울이 오기 전에 무언가를 해야 한다는 것은 아무도 의심하지 "
    "않았지만 기술자들과 회계 담당자는 비용에 대해 의견이 달랐습니다. 세 시간 뒤에 차선 하나를 막기로 했습니다. "
)
GERMAN = (
    "Der Ausschuss traf sich am Donnerstag, um zu entscheiden, ob die alte Brücke ausgebessert oder ersetzt werden soll. "
    "Niemand bezweifelte, dass vor dem Winter etwas geschehen müsse, aber über den Preis war man sich nicht einig. "
)
EMOJI = "🌍🚀🎉👍🏽🙂🔥💡✅❌🧪📦🐍🦀🎯🌧️🌈🍎🏆🎻🚲"


def random_bytes(count: int) -> bytes:
    """Bytes that are the same every time."""
    return b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(count // 32 + 1))[
        :count
    ]


BASE64 = base64.b64encode(random_bytes(3000)).decode()
DIGITS = " ".join(str(int.from_bytes(random_bytes(4000)[at : at + 5], "big")) for at in range(0, 4000, 5))
PYTHON = inspect.getsource(client)

SAMPLES = {
    "english": ENGLISH * 5,
    "chat": CHAT * 5,
    "python": PYTHON,
    "russian": RUSSIAN * 5,
    "arabic": ARABIC * 5,
    "chinese": CHINESE * 5,
    "japanese": JAPANESE * 5,
    "korean": KOREAN * 5,
    "german": GERMAN * 5,
    "emoji": EMOJI * 5,
    "base64": BASE64,
    "digits": DIGITS,
}
