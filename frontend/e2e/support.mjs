// What the browser tests share: one Chromium, signed-in pages, scripted answers, and accessibility checks.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

export const BASE = required("AGENTX_E2E_URL");
const MODEL = required("AGENTX_E2E_MODEL");
const SIGN_IN = required("AGENTX_E2E_SIGN_IN");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: the browser tests need a running server`);
  return value;
}

let browser;
let state;

/** Starts Chromium and uses the sign-in link, which works once, so its session is shared by all tests. */
export async function browserStart() {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH || "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      "--disable-component-update",
      "--no-first-run",
      "--disable-quic",
      "--disable-gpu",
    ],
  });
  const page = await openPage();
  await page.goto(SIGN_IN);
  await messageBox(page).waitFor();
  state = await page.context().storageState();
  await page.context().close();
}

export async function browserStop() {
  await browser?.close();
}

/** A page without a session. Everything that the browser reports as wrong is collected in `page.problems`. */
export async function openPage({ width = 1280, height = 800, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  context.setDefaultTimeout(10_000);
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    // What the browser itself logs for every refused request and lost socket.
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(text)) {
      page.problems.push(`console: ${text}`);
    }
  });
  return page;
}

/** A signed-in page on a new chat, or on `path`. */
export async function openApp(options = {}) {
  const page = await openPage({ storageState: state, ...options });
  await page.goto(options.path ? BASE + options.path : BASE);
  return page;
}

export async function closePage(page) {
  const problems = page.problems;
  await page.context().close();
  assert.deepEqual(problems, []);
}

export const messageBox = (page) => page.getByRole("textbox", { name: "Message" });
export const transcript = (page) => page.getByTestId("transcript");
export const answers = (page) => page.getByRole("article", { name: /^Assistant, message/ });
export const lastAnswer = (page) => answers(page).last();

export async function send(page, text) {
  await messageBox(page).fill(text);
  await messageBox(page).press("Enter");
}

/** The footer of a stored answer has come, so the turn is over. */
export async function waitForEnd(page) {
  await page.getByRole("button", { name: "Stop generating" }).waitFor({ state: "detached", timeout: 30_000 });
  await lastAnswer(page).getByRole("button", { name: "Copy answer" }).waitFor();
}

/** Says what the model answers to the next question that contains `match`. */
export async function scriptModel(script) {
  const answer = await fetch(`${MODEL}/__script`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(script),
  });
  assert.equal(answer.ok, true, await answer.text());
}

const words = (text) => text.match(/\S+\s*|\s+/g) ?? [];

/** A script that writes `text` word by word. */
export function saying(match, text, { tokensPerSecond = 0, reasoning = "", ...rest } = {}) {
  return {
    match,
    tokens_per_second: tokensPerSecond,
    steps: [
      ...words(reasoning).map((word) => ["delta", { reasoning_content: word }]),
      ...words(text).map((word) => ["delta", { content: word }]),
      ["finish", "stop"],
    ],
    ...rest,
  };
}

export async function storedMessages(page) {
  const id = new URL(page.url()).pathname.split("/").at(-1);
  const answer = await page.request.get(`${BASE}/api/conversations/${id}/messages`);
  return (await answer.json()).results;
}

export async function chooseTheme(page, theme) {
  await page.evaluate((chosen) => localStorage.setItem("agentx:theme", chosen), theme);
  await page.reload();
  await page.waitForFunction((chosen) => document.documentElement.dataset.theme === chosen, theme);
}

/** No violation of WCAG 2.2 A and AA on the page as it is. */
export async function assertAccessible(page, what) {
  // Half faded in, a button has the contrast of neither state. Animations without an end are left out: they would never.
  await page.evaluate(() =>
    Promise.all(
      document
        .getAnimations()
        .filter((animation) => animation.effect?.getComputedTiming().endTime !== Infinity)
        .map((animation) => animation.finished.catch(() => undefined)),
    ),
  );
  // Evaluated through the debugger, so the page's content security policy does not have to allow it.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const result = await globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
      // The levels of headings inside an answer are the model's.
      rules: { "heading-order": { enabled: false } },
    });
    return result.violations.map(
      (violation) =>
        `${violation.id}: ${violation.help}: ${violation.nodes.map((node) => node.html).join(" | ")}`,
    );
  });
  assert.deepEqual(found, [], what);
}

export async function assertNoSidewaysScroll(page, what) {
  const { content, view } = await page.evaluate(() => ({
    content: document.documentElement.scrollWidth,
    view: document.documentElement.clientWidth,
  }));
  assert.ok(content <= view, `${what}: ${content} px wide in a window of ${view} px`);
}
