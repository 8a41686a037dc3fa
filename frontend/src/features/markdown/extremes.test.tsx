import { render } from "@testing-library/react";
import { expect, test } from "vitest";

import { isEmphasisTooDeep, PLAIN_ABOVE, splitBlocks } from "./blocks";
import { Markdown } from "./Markdown";

const DEEP = 10_000;

const NESTED: [string, string][] = [
  ["quotes", `${"> ".repeat(DEEP)}core`],
  ["quotes without spaces", `${">".repeat(DEEP)}core`],
  ["lists in one line", `${"- ".repeat(DEEP)}core`],
  ["numbered lists in one line", `${"1. ".repeat(DEEP)}core`],
  ["quotes and lists", `${"> - ".repeat(DEEP)}core`],
  ["brackets", `${"[".repeat(DEEP)}core${"]".repeat(DEEP)}`],
  ["links", `${"[".repeat(DEEP)}core${"](x)".repeat(DEEP)}`],
  ["pictures", `${"![".repeat(DEEP)}core${"](x)".repeat(DEEP)}`],
  ["emphasis", `${"*a ".repeat(DEEP)}core${" a*".repeat(DEEP)}`],
  ["strong text", `${"**a ".repeat(DEEP)}core${" a**".repeat(DEEP)}`],
  ["underscores", `${"_a ".repeat(DEEP)}core${" a_".repeat(DEEP)}`],
  ["emphasis in parentheses", `${"(*a ".repeat(DEEP)}core${" a*)".repeat(DEEP)}`],
  ["markers side by side", `${"*".repeat(DEEP)}core${"*".repeat(DEEP)}`],
  ["deleted text", `${"~~a ".repeat(DEEP)}core${" a~~".repeat(DEEP)}`],
  ["tags", `${"<b>".repeat(DEEP)}core${"</b>".repeat(DEEP)}`],
];

test.each(NESTED)("ten thousand levels of %s are shown as text", (_name, text) => {
  const { container } = render(<Markdown text={`${text}\n\nThe end.`} streaming />);

  expect(container.textContent).toContain("core");
  expect(container.textContent).toContain("The end.");
  expect(container.querySelectorAll("*").length).toBeLessThan(100);
});

test("emphasis as people write it, however much of it, is not too deep", () => {
  const often = "A *slanted* and **bold** and ***both*** and ~~gone~~ word, *one **in** other*. ".repeat(500);
  const pointers = "int *a, *b; char **names; ".repeat(500);

  expect(isEmphasisTooDeep(often)).toBe(false);
  expect(isEmphasisTooDeep(pointers)).toBe(false);
  expect(isEmphasisTooDeep("* * *\n**********\n2 * 3 * 4")).toBe(false);
  expect(isEmphasisTooDeep(`${"*a ".repeat(32)}b${" a*".repeat(32)}`)).toBe(false);
  expect(isEmphasisTooDeep(`${"*a ".repeat(33)}b${" a*".repeat(33)}`)).toBe(true);
});

test("a line of a million characters is shown whole, as plain text", () => {
  const line = "**x** ".repeat(1_000_000 / 6);

  const { container } = render(<Markdown text={line} streaming />);

  expect(line.length).toBeGreaterThan(PLAIN_ABOVE);
  expect(container.querySelector("p")?.textContent).toBe(line);
  expect(container.querySelector("strong")).toBeNull();
});

test("a line of a million characters is cut into one block that loses nothing", () => {
  const line = "word ".repeat(200_000);

  const { blocks } = splitBlocks(`${line}\n\nnext`);

  expect(blocks).toHaveLength(2);
  expect(blocks.join("")).toBe(`${line}\n\nnext`);
});
