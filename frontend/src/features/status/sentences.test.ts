import { expect, test } from "vitest";

import { words } from "@/app/words";

import { sayWhatIsWrong } from "./sentences";

function componentsWithout(...down: string[]) {
  const names = ["database", "redis", "runner", "worker", "model"];
  return Object.fromEntries(names.map((name) => [name, { ok: !down.includes(name), detail: null }]));
}

function say(components: ReturnType<typeof componentsWithout> | null, liveAvailable = true): string[] {
  return sayWhatIsWrong({ components, unreachable: false, liveAvailable });
}

test("nothing is said while all is well or not known yet", () => {
  expect(say(componentsWithout())).toEqual([]);
  expect(say(null)).toEqual([]);
});

test("each part that is down has its sentence, the worst first", () => {
  expect(say(componentsWithout("worker"))).toEqual([words.banner.worker]);
  expect(say(componentsWithout("redis", "worker"))).toEqual([words.banner.live, words.banner.worker]);
  expect(say(componentsWithout("worker", "runner"))).toEqual([words.banner.runner, words.banner.worker]);
});

test("a socket that says that live text is missing is believed", () => {
  expect(say(componentsWithout(), false)).toEqual([words.banner.live]);
});

test("what depends on a part that is down is not named besides it", () => {
  expect(say(componentsWithout("database", "runner", "worker"))).toEqual([words.banner.database]);
  expect(
    sayWhatIsWrong({ components: componentsWithout("worker"), unreachable: true, liveAvailable: false }),
  ).toEqual([words.banner.unreachable]);
});
