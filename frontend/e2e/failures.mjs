// What goes wrong is said where it happened, with a way on, and nothing that was written is lost.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answers,
  BASE,
  closePage,
  lastAnswer,
  messageBox,
  openApp,
  saying,
  scriptModel,
  send,
  storedMessages,
  waitForEnd,
} from "./support.mjs";

const LONG = Array.from({ length: 150 }, (_, index) => `word${index}`).join(" ");

test("C12: a failing model is an alert with its cause, and Retry asks again", async () => {
  const page = await openApp();
  await scriptModel({
    match: "fails-once",
    status: 401,
    body: "{}",
    headers: { "Content-Type": "application/json" },
  });

  await send(page, "fails-once");
  const alert = lastAnswer(page).getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /key/i);
  await page.reload();
  await lastAnswer(page).getByText(/key/i).waitFor();
  await lastAnswer(page).getByRole("button", { name: "Retry" }).click();
  await waitForEnd(page);

  assert.equal(await page.getByRole("article", { name: /^You/ }).count(), 2);
  assert.match(await lastAnswer(page).innerText(), /rivers carry/);
  assert.equal(await answers(page).first().getByRole("button", { name: "Retry" }).count(), 0);
  await closePage(page);
});

test("an answer that breaks off keeps its text and says why", async () => {
  const page = await openApp();

  await send(page, "[[scripted-streamerror-n5]]");
  await lastAnswer(page).getByRole("alert").waitFor();

  assert.match(await lastAnswer(page).innerText(), /rivers carry small stones toward/);
  assert.equal((await storedMessages(page))[1].status, "failed");
  await closePage(page);
});

test("a lost connection says so, comes back by itself, and loses and repeats nothing", async () => {
  const page = await openApp();
  await scriptModel(saying("cut-turn", LONG, { tokensPerSecond: 25 }));
  let cut;
  await page.routeWebSocket(/\/ws\//, (socket) => {
    const server = socket.connectToServer();
    cut = () => {
      void server.close();
      void socket.close({ code: 1012 });
    };
  });
  await send(page, "cut-turn");
  await lastAnswer(page).getByText("word8").waitFor();

  cut();
  await page.getByText("Reconnecting…").waitFor();
  await page.getByText("Reconnecting…").waitFor({ state: "detached" });
  await waitForEnd(page);

  assert.equal(await lastAnswer(page).locator(".markdown").innerText(), LONG);
  await closePage(page);
});

test("a message that is sent while the connection is gone waits and is sent once", async () => {
  const page = await openApp();
  await send(page, "Something to begin with");
  await waitForEnd(page);
  await page.context().setOffline(true);
  await page.evaluate(() => window.dispatchEvent(new Event("offline")));
  await page.getByText("You are offline").waitFor();

  await send(page, "written on a train");
  await page.getByText(/Will send when online/).waitFor();
  await page.context().setOffline(false);
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  await page.getByText("You are offline").waitFor({ state: "detached" });
  await waitForEnd(page);

  const stored = await storedMessages(page);
  assert.deepEqual(
    stored.filter((message) => message.role === "user").map((message) => message.content),
    ["Something to begin with", "written on a train"],
  );
  await closePage(page);
});

test("a refused message goes back into the box", async () => {
  const page = await openApp();
  await page.route("**/api/conversations", (route) =>
    route.request().method() === "POST"
      ? route.fulfill({
          status: 503,
          contentType: "application/problem+json",
          body: JSON.stringify({
            detail: "The database is not available",
            code: "unavailable",
            retryable: true,
          }),
        })
      : route.fallback(),
  );

  await send(page, "please keep me");
  await page.getByRole("alert").getByText("The database is not available").waitFor();
  assert.equal(await messageBox(page).inputValue(), "please keep me");
  await page.unrouteAll();
  await page.getByRole("button", { name: "Retry" }).click();
  await waitForEnd(page);

  assert.equal((await storedMessages(page))[0].content, "please keep me");
  await closePage(page);
});

test("a part that is down is named in plain words, and the words go when it is back", async () => {
  const page = await openApp();
  const states = { runner: false, worker: false };
  await page.route("**/api/status", (route) =>
    route.fulfill({
      contentType: "application/json",
      body: JSON.stringify({
        ok: states.runner && states.worker,
        version: "1",
        components: Object.fromEntries(
          ["database", "redis", "runner", "worker", "model"].map((name) => [
            name,
            { ok: states[name] ?? true, detail: "" },
          ]),
        ),
      }),
    }),
  );

  await page.reload();
  await page.getByText("No runner is working: your message is saved").waitFor();
  await page.getByText("Background worker is down").waitFor();
  states.runner = true;
  states.worker = true;
  await page.getByText("No runner is working").waitFor({ state: "detached" });

  assert.equal(await page.getByText("Background worker is down").count(), 0);
  await closePage(page);
});

test("a conversation that does not exist says so and offers a new one", async () => {
  const page = await openApp({ path: "/c/00000000-0000-4000-8000-000000000000" });

  await page.getByRole("heading", { name: "There is no such conversation" }).waitFor();
  await page.getByRole("main").getByRole("button", { name: "New chat" }).last().click();
  await page.getByRole("heading", { name: /What can I help with/ }).waitFor();

  assert.equal(page.url(), `${BASE}/`);
  await closePage(page);
});

test("a list that cannot be loaded offers Retry", async () => {
  const page = await openApp();
  await page.route("**/api/conversations?*", (route) =>
    route.fulfill({
      status: 400,
      contentType: "application/problem+json",
      body: '{"detail": "No list today"}',
    }),
  );

  await page.reload();
  await page.getByText("The list could not be loaded. No list today.").waitFor();
  await page.unrouteAll();
  await page.getByRole("navigation").getByRole("button", { name: "Retry" }).click();

  await page.getByRole("heading", { name: "Today" }).waitFor();
  await closePage(page);
});
