import { expect, test } from "vitest";

import { groupByDate, headingFor } from "./groups";

const NOW = new Date(2026, 2, 15, 0, 30);

function at(...parts: [number, number, number, number?, number?]): Date {
  return new Date(...parts);
}

test("headings follow calendar days, not 24 hours", () => {
  expect(headingFor(at(2026, 2, 15, 0, 1), NOW)).toBe("Today");
  expect(headingFor(at(2026, 2, 14, 23, 59), NOW)).toBe("Yesterday");
  expect(headingFor(at(2026, 2, 13, 23, 59), NOW)).toBe("Previous 7 days");
  expect(headingFor(at(2026, 2, 8), NOW)).toBe("Previous 7 days");
  expect(headingFor(at(2026, 2, 7), NOW)).toBe("Previous 30 days");
  expect(headingFor(at(2026, 1, 13), NOW)).toBe("Previous 30 days");
  expect(headingFor(at(2026, 1, 12), NOW)).toBe("February");
  expect(headingFor(at(2025, 11, 31), NOW)).toBe("December 2025");
});

test("a server clock that is ahead still counts as today", () => {
  expect(headingFor(at(2026, 2, 16), NOW)).toBe("Today");
});

test("items are cut where the heading changes, in the order given", () => {
  const items = [at(2026, 2, 15), at(2026, 2, 14, 12), at(2026, 2, 14, 8), at(2024, 0, 1)].map((date) => ({
    updated_at: date.toISOString(),
  }));

  const groups = groupByDate(items, NOW);

  expect(groups.map((group) => [group.heading, group.items.length])).toEqual([
    ["Today", 1],
    ["Yesterday", 2],
    ["January 2024", 1],
  ]);
});
