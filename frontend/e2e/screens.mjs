// Every screen in both themes, at both widths, by keyboard alone, and checked for accessibility.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answers,
  assertAccessible,
  assertNoSidewaysScroll,
  BASE,
  chooseTheme,
  closePage,
  lastAnswer,
  messageBox,
  openApp,
  openPage,
  saying,
  scriptModel,
  waitForEnd,
} from "./support.mjs";

const RICH = [
  "## A heading",
  "Text with `code`, **bold** and a [link](https://example.org).",
  "A formula $$x^2 + 1$$ in the text, and \\[\\frac{1}{2}\\]",
  "1. first\n2. second\n   - inner",
  "```python\ndef main() -> None:\n    # A comment\n    print('a long line of code that is wider than a phone and must scroll in its own box')\n```",
  "| Part | State | Remark |\n|---|---|--:|\n| web | ready | a_word_that_is_long_enough_to_be_wider_than_a_phone_in_a_table |",
  "> A quotation",
  "- [x] done\n- [ ] not done",
  "averyveryverylongwordthatneverendsandhasnospacesinitaveryveryverylongwordthatneverendsandhasnospacesinit",
].join("\n\n");

for (const theme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    const phone = width < 640;
    const size = { width, height: phone ? 844 : 800, hasTouch: phone, isMobile: phone };

    test(`the sign-in page is accessible: ${theme}, ${width} px`, async () => {
      const page = await openPage(size);
      await page.goto(`${BASE}/sign-in?link=expired`);
      await chooseTheme(page, theme);
      await page.getByRole("button", { name: "Sign in" }).waitFor();

      await assertAccessible(page, "sign-in");
      await assertNoSidewaysScroll(page, "sign-in");
      await closePage(page);
    });

    test(`the chat and its menus are accessible: ${theme}, ${width} px`, async () => {
      const page = await openApp(size);
      await chooseTheme(page, theme);
      await page.getByRole("heading", { name: /What can I help with/ }).waitFor();
      await assertAccessible(page, "empty");
      await assertNoSidewaysScroll(page, "empty");

      await scriptModel(saying("rich-turn", RICH, { reasoning: "Let me see. " }));
      await messageBox(page).fill("rich-turn");
      await page.getByRole("button", { name: "Send message" }).click();
      await waitForEnd(page);
      await page.locator(".code-block .hl-keyword").first().waitFor();
      await page.locator(".katex").first().waitFor();
      await lastAnswer(page)
        .getByRole("button", { name: /Thought/ })
        .click();
      await assertAccessible(page, "answer");
      await assertNoSidewaysScroll(page, "answer");

      await messageBox(page).fill("[[scripted-streamerror]]");
      await page.getByRole("button", { name: "Send message" }).click();
      await lastAnswer(page).getByRole("alert").waitFor();
      await assertAccessible(page, "failure");

      if (phone) await page.getByRole("button", { name: "Show sidebar" }).click();
      await page.getByRole("link", { name: "rich-turn" }).first().waitFor();
      await assertAccessible(page, "sidebar");
      await assertNoSidewaysScroll(page, "sidebar");
      await page.getByRole("button", { name: /^Account and theme/ }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).waitFor();
      await assertAccessible(page, "menu");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Actions for rich-turn" }).first().click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      await page.getByRole("alertdialog").waitFor();
      await assertAccessible(page, "confirmation");
      await page.getByRole("button", { name: "Cancel" }).click();
      await closePage(page);
    });
  }
}

test("C17: on a phone the message box is inside the window and its text is 16 px", async () => {
  const page = await openApp({ width: 390, height: 844, hasTouch: true, isMobile: true });
  await messageBox(page).waitFor();

  const box = await messageBox(page).boundingBox();
  const fontSize = await messageBox(page).evaluate((element) =>
    Number.parseFloat(getComputedStyle(element).fontSize),
  );

  assert.ok(box.y + box.height <= 844);
  assert.ok(fontSize >= 16);
  await closePage(page);
});

test("C16: on a phone Enter adds a line", async () => {
  const page = await openApp({ width: 390, height: 844, hasTouch: true, isMobile: true });
  await messageBox(page).fill("one");

  await messageBox(page).press("Enter");

  assert.equal(await messageBox(page).inputValue(), "one\n");
  assert.equal(await answers(page).count(), 0);
  await closePage(page);
});

test("touch targets are at least 44 px high on a phone", async () => {
  const page = await openApp({ width: 390, height: 844, hasTouch: true, isMobile: true });
  await messageBox(page).waitFor();

  const small = await page.evaluate(() =>
    [...document.querySelectorAll("button:not(.skip-link), a")]
      .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 44)
      .map((node) => node.outerHTML.slice(0, 120)),
  );

  assert.deepEqual(small, []);
  await closePage(page);
});

const menuItemFocused = (page, name) =>
  page.waitForFunction((wanted) => document.activeElement?.textContent === wanted, name);

test("C20: a whole turn, a rename and a deletion by keyboard alone", async () => {
  const page = await openApp();
  await messageBox(page).waitFor();
  await page.evaluate(() => {
    document.body.tabIndex = -1;
    document.body.focus();
  });

  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to message box");
  await page.keyboard.press("Enter");
  await page.keyboard.type("by keyboard alone");
  await page.keyboard.press("Enter");
  await waitForEnd(page);
  await page.getByRole("button", { name: "Actions for by keyboard alone" }).focus();
  await page.keyboard.press("Enter");
  await menuItemFocused(page, "Rename");
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Title" }).waitFor();
  await page.keyboard.type("renamed by keyboard");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "renamed by keyboard", level: 1 }).waitFor();
  await page.keyboard.press("Shift+Escape");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Message");
  await page.keyboard.press("Control+Shift+S");
  await page.getByRole("navigation", { name: "Conversations" }).waitFor({ state: "detached" });
  await page.keyboard.press("Control+Shift+S");
  await page.getByRole("button", { name: "Actions for renamed by keyboard" }).focus();
  await page.keyboard.press("Enter");
  await menuItemFocused(page, "Rename");
  await page.keyboard.press("ArrowDown");
  await menuItemFocused(page, "Delete");
  await page.keyboard.press("Enter");
  await page.getByRole("alertdialog").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${BASE}/`);
  await page.getByRole("link", { name: "renamed by keyboard" }).waitFor({ state: "detached" });
  await page.keyboard.press("Control+Shift+O");

  await page.getByRole("heading", { name: /What can I help with/ }).waitFor();
  await closePage(page);
});
