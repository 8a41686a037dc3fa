// Getting in: sign-in, links that work once, and sessions that end in the middle of work.
import assert from "node:assert/strict";
import { test } from "node:test";

import { BASE, closePage, lastAnswer, messageBox, openApp, openPage, send, waitForEnd } from "./support.mjs";

test("somebody who is not signed in is asked to, and told what was wrong", async () => {
  const page = await openPage();

  await page.goto(`${BASE}/`);
  await page.waitForURL("**/sign-in");
  await page.getByLabel("Username").fill("nobody");
  await page.getByLabel("Password").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();

  await page.getByRole("alert").getByText("Username or password is wrong").waitFor();
  assert.equal(await page.getByLabel("Username").inputValue(), "nobody");
  await closePage(page);
});

test("a sign-in link that is spent says so", async () => {
  const page = await openPage();

  await page.goto(`${BASE}/sign-in/${"x".repeat(43)}/`);

  await page.getByText("That sign-in link has been used or has expired").waitFor();
  await closePage(page);
});

test("a sign-in link opens an empty new chat with the message box ready", async () => {
  const page = await openApp();

  await page.getByRole("heading", { name: /What can I help with/ }).waitFor();
  await messageBox(page).waitFor();
  assert.equal(await messageBox(page).evaluate((box) => box === document.activeElement), true);
  await closePage(page);
});

test("C8: a session that ends in the middle of work keeps the page and the text, and sends after signing in", async () => {
  const page = await openApp();
  await send(page, "Before the session ends");
  await waitForEnd(page);
  const cookies = await page.context().cookies();

  await page.context().clearCookies();
  await page.reload();
  await page.waitForURL(/\/sign-in\?next=/);
  await page.context().addCookies(cookies);
  await page.goto(`${BASE}/`);
  await messageBox(page).waitFor();
  await page.context().clearCookies({ name: "sessionid" });
  await send(page, "Written while signed out");

  const dialog = page.getByRole("dialog", { name: "Sign in again" });
  await dialog.waitFor();
  assert.equal(await page.getByText("Written while signed out").first().isVisible(), true);
  // The password is not known here: the session comes back as it would after signing in.
  await page.context().addCookies(cookies);
  await page.route("**/api/auth/sign-in", async (route) => {
    const session = await page.request.get(`${BASE}/api/auth/session`);
    await route.fulfill({ status: 200, contentType: "application/json", body: await session.text() });
  });
  await dialog.getByLabel("Password").fill("the password");
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.waitFor({ state: "detached" });
  await waitForEnd(page);

  assert.match(page.url(), /\/c\//);
  assert.match(await lastAnswer(page).innerText(), /rivers carry/);
  await closePage(page);
});
