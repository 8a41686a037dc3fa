// A turn from the question to the stored answer, in one tab, two tabs, and across reloads.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answers,
  assertAccessible,
  BASE,
  closePage,
  lastAnswer,
  messageBox,
  openApp,
  saying,
  scriptModel,
  send,
  storedMessages,
  transcript,
  waitForEnd,
} from "./support.mjs";

const LONG = Array.from({ length: 120 }, (_, index) => `word${index}`).join(" ");

test("C11: a first message makes a conversation, shows its status at once, and streams", async () => {
  const page = await openApp();
  await scriptModel(
    saying("first-turn", "One **bold** answer.", {
      tokensPerSecond: 5,
      first_token_seconds: 1,
      reasoning: "Let me think about it. ",
    }),
  );
  await messageBox(page).fill("Hello first-turn");

  await messageBox(page).press("Enter");
  await page.getByText(/^(Sending|Waiting|Composing).*, \d+ s$/).waitFor();
  await page.waitForURL(/\/c\/[\da-f-]{36}$/);
  await page.getByText(/^Thinking, \d+ s$/).waitFor();
  await waitForEnd(page);

  assert.equal(await page.getByRole("article", { name: "You, message 1" }).innerText(), "Hello first-turn");
  assert.equal(await lastAnswer(page).locator("strong").innerText(), "bold");
  assert.match(await lastAnswer(page).innerText(), /Thought for \d+ s/);
  assert.match(await lastAnswer(page).innerText(), /scripted · \d+ tokens · [\d.]+ s/);
  assert.equal(await messageBox(page).inputValue(), "");
  const item = page
    .getByRole("navigation", { name: "Conversations" })
    .getByRole("link", { name: "Hello first-turn" })
    .first();
  assert.equal(await item.getAttribute("aria-current"), "page");
  await closePage(page);
});

test("C10: a reload in the middle of an answer goes on, and ends with the stored text", async () => {
  const page = await openApp();
  await scriptModel(saying("reload-turn", LONG, { tokensPerSecond: 30 }));
  await send(page, "reload-turn");
  await lastAnswer(page).getByText("word20").waitFor();

  await page.reload();
  await lastAnswer(page).getByText("word0 word1").waitFor();
  assert.equal(await page.getByRole("button", { name: "Stop generating" }).isVisible(), true);
  await waitForEnd(page);

  const stored = await storedMessages(page);
  assert.equal(stored[1].content, LONG);
  assert.equal(await lastAnswer(page).locator(".markdown").innerText(), LONG);
  await closePage(page);
});

test("C13, C14: stop is acknowledged, the text is kept and marked, and the next message follows it", async () => {
  const page = await openApp();
  await scriptModel(saying("stop-turn", LONG, { tokensPerSecond: 15 }));
  await send(page, "stop-turn");
  await lastAnswer(page).getByText("word5").waitFor();

  await page.getByRole("button", { name: "Stop generating" }).click();
  await page
    .getByText(/^(Stopping|Stopped)/)
    .first()
    .waitFor();
  await waitForEnd(page);
  assert.match(await lastAnswer(page).innerText(), /word5[\s\S]*Stopped/);
  await send(page, "and now the next one");
  await waitForEnd(page);

  await page.reload();
  await lastAnswer(page).waitFor();
  const stored = await storedMessages(page);
  assert.deepEqual(
    stored.map((message) => [message.role, message.status]),
    [
      ["user", "complete"],
      ["assistant", "stopped"],
      ["user", "complete"],
      ["assistant", "complete"],
    ],
  );
  assert.match(await answers(page).first().innerText(), /Stopped/);
  await closePage(page);
});

test("Escape twice within a second stops; once does not", async () => {
  const page = await openApp();
  await scriptModel(saying("escape-turn", LONG, { tokensPerSecond: 15 }));
  await send(page, "escape-turn");
  await lastAnswer(page).getByText("word2").waitFor();

  // A first press in the page's first second is a first press too: events count their time from the page's start.
  await page.evaluate(() => {
    const press = new KeyboardEvent("keydown", { key: "Escape" });
    Object.defineProperty(press, "timeStamp", { value: 400 });
    window.dispatchEvent(press);
  });
  await page.getByText("Press Esc again to stop").waitFor();
  assert.equal(await page.getByRole("button", { name: "Stop generating" }).isVisible(), true);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await waitForEnd(page);

  assert.match(await lastAnswer(page).innerText(), /Stopped/);
  await closePage(page);
});

test("a turn with a tool shows its step, live and after a reload", async () => {
  const page = await openApp();
  const call = { index: 0, id: "c1", type: "function", function: { name: "current_date", arguments: "{}" } };
  await scriptModel({
    match: "tool-turn",
    times: 1,
    steps: [
      ["delta", { content: "I will look." }],
      ["delta", { tool_calls: [call] }],
      ["finish", "tool_calls"],
    ],
  });
  await scriptModel(saying("tool-turn", "It is a fine day."));
  await send(page, "tool-turn");
  await waitForEnd(page);

  for (const reload of [false, true]) {
    if (reload) await page.reload();
    await lastAnswer(page).getByText("It is a fine day.").waitFor();
    assert.equal(await answers(page).count(), 1);
    await lastAnswer(page).getByText("I will look.").waitFor();
    const step = lastAnswer(page).getByRole("button", { name: /Looking at the clock/ });
    await step.click();
    assert.match(await lastAnswer(page).getByRole("list", { name: "Steps" }).innerText(), /"?date"?|UTC/);
    await assertAccessible(page, "an answer with an open step");
  }
  const stored = await storedMessages(page);
  assert.deepEqual(
    stored.map((message) => message.role),
    ["user", "assistant", "tool", "assistant"],
  );
  await send(page, "and the next one");
  await waitForEnd(page);
  assert.equal(await answers(page).count(), 2);
  await closePage(page);
});

test("a second tab sees the run of the first, and its end", async () => {
  const first = await openApp();
  await send(first, "Something to open twice");
  await waitForEnd(first);
  const second = await openApp({ path: new URL(first.url()).pathname });
  await lastAnswer(second)
    .getByText(/rivers/)
    .waitFor();
  await scriptModel(saying("second-tab", LONG, { tokensPerSecond: 60 }));

  await send(first, "second-tab");
  await second.getByRole("article", { name: "You, message 3" }).waitFor();
  await second.getByRole("button", { name: "Stop generating" }).waitFor();
  await lastAnswer(second).getByText("word3").waitFor();
  await waitForEnd(second);
  await waitForEnd(first);

  const text = await lastAnswer(first).locator(".markdown").innerText();
  assert.equal(text, LONG);
  assert.equal(await lastAnswer(second).locator(".markdown").innerText(), text);
  await closePage(first);
  await closePage(second);
});

test("RUN-07: what is sent while an answer runs waits in sight, can be taken back, and is answered next", async () => {
  const page = await openApp();
  await scriptModel(saying("steered-turn", LONG, { tokensPerSecond: 12 }));
  await scriptModel(saying("and briefly", "As briefly as that."));
  await send(page, "steered-turn");
  await lastAnswer(page).getByText("word3").waitFor();

  await messageBox(page).fill("never mind");
  await messageBox(page).press("Enter");
  const waiting = page.getByRole("region", { name: "Waiting messages" });
  await waiting.getByText("never mind").waitFor();
  assert.equal(await messageBox(page).inputValue(), "");
  await waiting.getByRole("button", { name: "Take back: never mind" }).click();
  await waiting.waitFor({ state: "detached" });
  assert.equal(await messageBox(page).inputValue(), "never mind");

  await messageBox(page).fill("and briefly");
  await page.getByRole("button", { name: "Send to the running answer" }).click();
  await waiting.getByText("and briefly").waitFor();
  await assertAccessible(page, "a running answer with a waiting message");
  await page.reload();
  await waiting.getByText("and briefly").waitFor();

  await lastAnswer(page).getByText("As briefly as that.").waitFor({ timeout: 20_000 });
  await waitForEnd(page);
  assert.equal(await answers(page).count(), 2);
  assert.equal(await waiting.count(), 0);
  const stored = await storedMessages(page);
  assert.deepEqual(
    stored.map((message) => [message.role, message.turn]),
    [
      ["user", 1],
      ["assistant", 1],
      ["user", 2],
      ["assistant", 2],
    ],
  );
  await closePage(page);
});

test("C9: what is typed while an answer runs is kept, across a reload too", async () => {
  const page = await openApp();
  await scriptModel(saying("draft-turn", LONG, { tokensPerSecond: 30 }));
  await send(page, "draft-turn");
  await lastAnswer(page).getByText("word3").waitFor();

  await messageBox(page).fill("not sent yet");
  await page.reload();
  await lastAnswer(page).waitFor();

  assert.equal(await messageBox(page).inputValue(), "not sent yet");
  await waitForEnd(page);
  assert.equal(await page.getByRole("article", { name: /^You/ }).count(), 1);
  await closePage(page);
});

test("C19: one announcement when an answer starts and one when it ends", async () => {
  const page = await openApp();
  await page.evaluate(() => {
    globalThis.said = [];
    new MutationObserver((changes) => {
      for (const change of changes) {
        const region =
          change.target.parentElement?.closest("[role=status]") ?? change.target.closest?.("[role=status]");
        if (region?.className === "sr-only" && region.textContent) globalThis.said.push(region.textContent);
      }
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await scriptModel(saying("announce-turn", LONG, { tokensPerSecond: 200, reasoning: "Well. " }));

  await send(page, "announce-turn");
  await waitForEnd(page);

  const said = await page.evaluate(() => globalThis.said);
  assert.deepEqual([...new Set(said)], ["The answer has started", "The answer is complete"]);
  assert.equal(await transcript(page).getAttribute("aria-live"), "off");
  await closePage(page);
});

test("a tab that was away catches up with what was written elsewhere", async () => {
  const page = await openApp();
  await send(page, "Something that another device continues");
  await waitForEnd(page);
  const id = new URL(page.url()).pathname.split("/").at(-1);
  await page.context().setOffline(true);
  await page.evaluate(() => window.dispatchEvent(new Event("offline")));
  const other = await openApp();
  const csrf = (await other.context().cookies()).find((cookie) => cookie.name === "csrftoken").value;
  const answer = await other.request.post(`${BASE}/api/conversations/${id}/turns?wait=true`, {
    data: { content: "from elsewhere" },
    headers: { "X-CSRFToken": csrf, Referer: BASE },
  });
  assert.equal(answer.status(), 200);

  await page.context().setOffline(false);
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  await page.getByRole("article", { name: "Assistant, message 4" }).waitFor();

  assert.equal(await page.getByRole("article", { name: "You, message 3" }).innerText(), "from elsewhere");
  await closePage(page);
  await closePage(other);
});
