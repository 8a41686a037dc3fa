import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { words } from "@/app/words";

import { StatusBanner } from "./StatusBanner";

const PARTS = ["database", "redis", "runner", "worker", "model"];
let down: string[];
let asked: number;

beforeEach(() => {
  vi.useFakeTimers();
  down = [];
  asked = 0;
  vi.stubGlobal("fetch", () => {
    asked += 1;
    const components = Object.fromEntries(
      PARTS.map((name) => [name, { ok: !down.includes(name), detail: null }]),
    );
    const status = { ok: down.length === 0, components, version: "1" };
    return Promise.resolve(
      new Response(JSON.stringify(status), { headers: { "Content-Type": "application/json" } }),
    );
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function pass(ms: number): Promise<void> {
  await act(() => vi.advanceTimersByTimeAsync(ms));
}

async function show(): Promise<HTMLElement> {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <StatusBanner liveAvailable />
    </QueryClientProvider>,
  );
  await pass(50);
  return screen.getByRole("status", { name: "State of the system" });
}

test.each([
  ["database", words.banner.database],
  ["redis", words.banner.live],
  ["runner", words.banner.runner],
  ["worker", words.banner.worker],
  ["model", words.banner.model],
])("while %s is down its sentence is shown, and it goes by itself on recovery", async (name, sentence) => {
  down = [name];
  const banner = await show();
  expect(banner.textContent).toBe(sentence);

  down = [];
  await pass(3_100);

  expect(banner.textContent).toBe("");
});

test("a part that fails later is noticed within fifteen seconds, and asked about more often from then on", async () => {
  const banner = await show();
  expect([banner.textContent, asked]).toEqual(["", 1]);

  down = ["worker"];
  await pass(15_100);
  expect([banner.textContent, asked]).toEqual([words.banner.worker, 2]);
  await pass(6_100);

  expect(asked).toBe(4);
});
