// Reading: nothing moves under a reader's eyes, long conversations stay light, and hostile text stays text.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answers,
  closePage,
  lastAnswer,
  messageBox,
  openApp,
  saying,
  scriptModel,
  send,
  transcript,
  waitForEnd,
} from "./support.mjs";

const PARAGRAPHS = Array.from(
  { length: 60 },
  (_, index) => `Paragraph ${index} of a long answer that goes on.`,
).join("\n\n");

const scrollTop = (page) => transcript(page).evaluate((element) => element.scrollTop);

/** One of the messages of a long conversation, as the server would send it. */
const makeMessage = (seq) => ({
  id: seq,
  seq,
  turn: Math.ceil(seq / 2),
  role: seq % 2 ? "user" : "assistant",
  content: `Text ${seq}. ${"Some more of it. ".repeat(seq % 17)}`,
  status: "complete",
  tool_calls: [],
  tool_call_id: "",
  run_id: null,
  metadata: {},
  created_at: "2026-01-01T00:00:00Z",
});

test("C6: a reader who scrolls up is left alone, and can jump back to the end", async () => {
  const page = await openApp();
  await scriptModel(saying("scroll-turn", PARAGRAPHS, { tokensPerSecond: 90 }));
  await send(page, "scroll-turn");
  await lastAnswer(page).getByText("Paragraph 20 of").waitFor();

  await transcript(page).hover();
  await page.mouse.wheel(0, -400);
  await page.getByRole("button", { name: "Jump to latest message" }).waitFor();
  const before = await scrollTop(page);
  await page.waitForTimeout(2_000);
  const after = await scrollTop(page);
  assert.ok(Math.abs(after - before) < 3, `moved from ${before} to ${after}`);
  await page.getByRole("button", { name: "Jump to latest message" }).click();
  await waitForEnd(page);

  await page.waitForFunction(() => {
    const element = document.querySelector("[role=log]");
    return element.scrollHeight - element.scrollTop - element.clientHeight < 3;
  });
  await closePage(page);
});

test("C5, C28: finished blocks keep their elements, and nothing moves when thinking or the answer ends", async () => {
  const page = await openApp();
  const text =
    "First paragraph.\n\n```python\nprint(1)\n```\n\nThird paragraph goes on and on. " + "more ".repeat(60);
  await scriptModel(
    saying("stable-turn", text, { tokensPerSecond: 60, reasoning: "Thinking about it. ".repeat(40) }),
  );
  await send(page, "stable-turn");
  await page.getByText(/^Thinking, \d+ s$/).waitFor();
  const bubbleTop = await lastAnswer(page)
    .getByRole("button", { name: /Thinking/ })
    .evaluate((node) => node.getBoundingClientRect().top);
  await lastAnswer(page).getByText("Third paragraph").waitFor();

  await page.waitForFunction(() => document.querySelector(".code-block [class^=hl-]"));
  await page.evaluate(() => {
    globalThis.kept = [...document.querySelectorAll(".markdown > *")].slice(0, 2);
    globalThis.shifts = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) globalThis.shifts += entry.value;
    }).observe({ type: "layout-shift", buffered: false });
  });
  await waitForEnd(page);

  const same = await page.evaluate(() =>
    globalThis.kept.map((node, index) => node === document.querySelectorAll(".markdown > *")[index]),
  );
  assert.deepEqual(same, [true, true]);
  assert.ok((await page.evaluate(() => globalThis.shifts)) <= 0.02);
  const after = await lastAnswer(page)
    .getByRole("button", { name: /Thought/ })
    .evaluate((node) => node.getBoundingClientRect().top);
  assert.ok(Math.abs(after - bubbleTop) <= 2, `the bubble moved from ${bubbleTop} to ${after}`);
  await closePage(page);
});

test("C1, C7: of 2,000 messages few are elements, and older ones come without a jump", async () => {
  const page = await openApp();
  await send(page, "The beginning of a long conversation");
  await waitForEnd(page);
  const total = 2_000;
  await page.route("**/messages?*", (route) => {
    const query = new URL(route.request().url()).searchParams;
    const end = query.has("before") ? Number(query.get("before")) - 1 : total;
    const start = query.has("after") ? total + 1 : Math.max(1, end - Number(query.get("limit")) + 1);
    const results = [];
    for (let seq = start; seq <= end; seq += 1) results.push(makeMessage(seq));
    return route.fulfill({ json: { results, has_before: start > 1, has_after: false } });
  });
  await page.reload();
  await page.getByRole("article", { name: `Assistant, message ${total}`, exact: true }).waitFor();
  await transcript(page).hover();

  for (let turn = 0; turn < 60; turn += 1) {
    await page.mouse.wheel(0, -2_500);
    await page.waitForTimeout(30);
    assert.ok((await page.getByRole("article").count()) < 60);
  }
  await page.waitForTimeout(500);
  const where = () =>
    page.evaluate(() => {
      const box = document.querySelector("[role=log]").getBoundingClientRect();
      const row = [...document.querySelectorAll("article")].find(
        (node) => node.getBoundingClientRect().bottom > box.top + 60,
      );
      return [row.getAttribute("aria-label"), Math.round(row.getBoundingClientRect().top)];
    });
  const [label, top] = await where();
  await page.waitForTimeout(700);

  assert.ok(Number(label.match(/\d+$/)[0]) < total - 120, label);
  const [labelAfter, topAfter] = await where();
  assert.equal(labelAfter, label);
  assert.ok(Math.abs(topAfter - top) <= 2, `${label} moved from ${top} to ${topAfter}`);
  await closePage(page);
});

test("C18: copying works without the clipboard interface", async () => {
  const page = await openApp();
  await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  await page.reload();
  await scriptModel(saying("copy-turn", "```js\nlet copied = 1;\n```"));
  await send(page, "copy-turn");
  await waitForEnd(page);

  await page.getByRole("button", { name: "Copy code" }).click();
  await page.getByText("Copied").first().waitFor({ state: "attached" });
  await messageBox(page).focus();
  await page.keyboard.press("Control+V");

  assert.equal(await messageBox(page).inputValue(), "let copied = 1;");
  await closePage(page);
});

test("hostile markdown does nothing: tags are text, links that run code are text, no foreign image is fetched", async () => {
  const page = await openApp();
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  const text = [
    "<script>globalThis.hit = 1</script>",
    '<img src=x onerror="globalThis.hit = 1">',
    "[click](javascript:globalThis.hit=1) and [data](data:text/html,x)",
    "![picture](https://images.invalid/a.png)",
    '<svg onload="globalThis.hit = 1"></svg>',
  ].join("\n\n");
  await scriptModel(saying("hostile-turn", text));
  await send(page, "hostile-turn");
  await waitForEnd(page);

  assert.equal(await page.evaluate(() => globalThis.hit), undefined);
  assert.equal(await lastAnswer(page).locator("script, img, svg[onload]").count(), 0);
  assert.deepEqual(
    await lastAnswer(page)
      .locator(".markdown a")
      .evaluateAll((links) => links.map((link) => link.href)),
    ["https://images.invalid/a.png"],
  );
  assert.ok((await answers(page).first().innerText()).includes("<script>globalThis.hit = 1</script>"));
  assert.equal(
    requests.some((url) => url.includes("images.invalid")),
    false,
  );
  await closePage(page);
});
