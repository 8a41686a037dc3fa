import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";

import { isFenceClosed, isTooDeep, NO_BLOCKS, splitBlocks } from "./blocks";
import { highlightCode } from "./highlight";
import { safeHref } from "./links";
import { Markdown } from "./Markdown";

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg onload=alert(1)><circle/></svg>",
  "<iframe src='javascript:alert(1)'></iframe>",
  "<div style='position:fixed;inset:0' onclick=alert(1)>covered</div>",
  "[a](javascript:alert(1))",
  "[a](JaVaScRiPt:alert(1))",
  "[a](java\nscript:alert(1))",
  "[a]( data:text/html;base64,PHNjcmlwdD4= )",
  "[a](vbscript:x) [b](file:///etc/passwd) [c](/admin/logout)",
  "<javascript:alert(1)>",
  "![x](javascript:alert(1)) ![y](data:image/svg+xml,<svg onload=alert(1)>)",
  '![x](https://images.invalid/x.png "onerror=alert(1)")',
  "[ref]: javascript:alert(1)\n\n[ref]",
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x&#62;",
  "```html\n<script>alert(1)</script>\n```",
  "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
];

/** Nothing in the element can run code or fetch anything. */
function expectInert(container: HTMLElement): void {
  expect(
    container.querySelectorAll("script, img, svg:not(.lucide), iframe, style, object, embed, form"),
  ).toHaveLength(0);
  for (const element of container.querySelectorAll("*")) {
    for (const { name } of element.attributes) expect(name).not.toMatch(/^on|^src$|^srcdoc$|^style$/);
  }
  for (const link of container.querySelectorAll("a")) expect(link.href).toMatch(/^(https?|mailto):/);
}

test.each(HOSTILE)("hostile text stays inert at every length of the stream: %s", (text) => {
  const view = render(<Markdown text="" streaming />);

  for (let length = 1; length <= text.length; length += 1) {
    view.rerender(<Markdown text={text.slice(0, length)} streaming />);
    expectInert(view.container);
  }
  view.rerender(<Markdown text={text} streaming={false} />);

  expectInert(view.container);
});

test("tags are shown as the text that they are", () => {
  const { container } = render(
    <Markdown text={"A <b>tag</b> and\n\n<div>\nblock\n</div>"} streaming={false} />,
  );

  expect(container.textContent).toContain("A <b>tag</b> and");
  expect(container.textContent).toContain("<div>\nblock\n</div>");
});

test("only http, https and mailto are links", () => {
  expect(safeHref("https://example.org/a?b=c")).toBe("https://example.org/a?b=c");
  expect(safeHref("mailto:a@example.org")).toBe("mailto:a@example.org");
  for (const href of [
    "javascript:x",
    " javascript:x",
    "data:text/html,x",
    "//example.org",
    "/api",
    "#a",
    "",
  ]) {
    expect(safeHref(href)).toBeNull();
  }
});

test("a picture from elsewhere is a link until somebody follows it", () => {
  render(<Markdown text="![A cat](https://images.invalid/cat.png)" streaming={false} />);

  expect(screen.getByRole("link", { name: "A cat" })).toHaveAttribute(
    "href",
    "https://images.invalid/cat.png",
  );
});

test("C21: prices are not maths", () => {
  const { container } = render(<Markdown text="It costs $5, or $10 for two." streaming={false} />);

  expect(container.textContent).toBe("It costs $5, or $10 for two.");
});

test("C21: double dollars and bracketed maths are set, complete formulas alone", async () => {
  const text = "So $$a^2$$ and \\(b_1\\).\n\n\\[\nc = \\frac{1}{2}\n\\]\n\nIt costs $$ and \\(open";

  const { container } = render(<Markdown text={text} streaming />);

  await waitFor(() => expect(container.querySelectorAll(".katex")).toHaveLength(3));
  expect(container.querySelectorAll(".formula .katex-display")).toHaveLength(1);
  expect(container.textContent).toContain("It costs $$ and");
  expect(container.querySelectorAll("a, img")).toHaveLength(0);
});

test("a formula that cannot be set is shown as it was written", async () => {
  const { container } = render(
    <Markdown text={"Bad: $$\\frac{1}{$$ and \\(\\href{javascript:alert(1)}{x}\\)"} streaming={false} />,
  );

  await waitFor(() => expect(container.textContent).toContain("$$\\frac{1}{$$"));
  expect(container.querySelectorAll("a")).toHaveLength(0);
});

test("what models usually write looks as meant", () => {
  const text = [
    "# Title",
    "Some **bold**, *slanted*, ~~gone~~ and `code`.  \nNext line &amp; more.",
    "1. one\n2. two\n   - inner",
    "- [x] done",
    "> quoted",
    "| a | b |\n|---|--:|\n| 1 | 2 |",
    "---",
    "[name]: https://example.org\n\nSee [name].",
  ].join("\n\n");

  const { container } = render(<Markdown text={text} streaming={false} />);

  expect(container.querySelector("h2")).toHaveTextContent("Title");
  expect(container.querySelector("strong")).toHaveTextContent("bold");
  expect(container.querySelector("del")).toHaveTextContent("gone");
  expect(container.textContent).toContain("Next line & more.");
  expect(container.querySelectorAll("ol > li")).toHaveLength(2);
  expect(container.querySelector("ol ul li")).toHaveTextContent("inner");
  expect(container.querySelector("input[type=checkbox]")).toBeChecked();
  expect(container.querySelector("blockquote")).toHaveTextContent("quoted");
  expect(container.querySelector("td.text-right")).toHaveTextContent("2");
  expect(container.querySelector("hr")).toBeInTheDocument();
  expect(screen.getByRole("link", { name: "name" })).toHaveAttribute("href", "https://example.org/");
});

const ARTICLE = [
  "First paragraph with **bold** text.",
  "```python\nprint('one')\n\nprint('two')\n```",
  "- item one\n- item two\n\n  with a second paragraph\n- item three",
  "| a | b |\n|---|---|\n| 1 | 2 |",
  "Setext\n======",
  "> quote\nlazy line",
  "    indented code\n\n    goes on",
  "Last words.",
].join("\n\n");

test("cutting a growing text gives the same blocks as cutting it whole", () => {
  let growing = NO_BLOCKS;
  for (let length = 1; length <= ARTICLE.length; length += 1)
    growing = splitBlocks(ARTICLE.slice(0, length), growing);

  expect(growing.blocks).toEqual(splitBlocks(ARTICLE).blocks);
  expect(growing.blocks.join("")).toBe(ARTICLE);
});

test("C5: finished blocks keep their elements through the rest of the stream and its end", () => {
  const start = `${ARTICLE}\n\nAnd now `;
  const view = render(<Markdown text={start} streaming />);
  const blocks = [...view.container.firstElementChild!.children];

  for (let delta = 0; delta < 200; delta += 1)
    view.rerender(<Markdown text={start + "word ".repeat(delta)} streaming />);
  view.rerender(<Markdown text={start + "word ".repeat(200)} streaming={false} />);

  const after = [...view.container.firstElementChild!.children];
  expect(blocks.every((block, index) => block === after[index])).toBe(true);
  expect(after).toHaveLength(blocks.length);
});

test("open markers at the end of a growing text are closed for the moment", () => {
  const { container } = render(<Markdown text="This is **bo" streaming />);

  expect(container.querySelector("strong")).toHaveTextContent("bo");
});

test("a fence is closed by its own kind and length alone", () => {
  expect(isFenceClosed("```js\nlet a;")).toBe(false);
  expect(isFenceClosed("```js\nlet a;\n``")).toBe(false);
  expect(isFenceClosed("```js\nlet a;\n```\n\n")).toBe(true);
  expect(isFenceClosed("````\n```\n")).toBe(false);
  expect(isFenceClosed("    indented")).toBe(true);
});

test("colours lose no character of the code", async () => {
  const code = 'import asyncio\n\nasync def main() -> None:\n    # A comment: TODO\n    print(f"item {1}")\n';

  const { container } = render(<pre>{highlightCode(code, "python")}</pre>);

  expect(container.textContent).toBe(code);
  expect(container.querySelector(".hl-comment")).toHaveTextContent("# A comment: TODO");
  expect(render(<p>{highlightCode("plain", "no-such-language")}</p>).container.textContent).toBe("plain");
});

test("code is coloured once its fence is closed, not before", async () => {
  const open = "```python\nprint(1)";
  const view = render(<Markdown text={open} streaming />);
  expect(view.container.querySelector("[class^=hl-]")).toBeNull();

  view.rerender(<Markdown text={`${open}\n\`\`\`\n\nMore`} streaming />);

  await waitFor(() => expect(view.container.querySelector("[class^=hl-]")).not.toBeNull());
});

test("nesting that would stop the page is shown as plain text", () => {
  const quotes = `${">".repeat(3_000)} deep`;
  const lists = Array.from({ length: 500 }, (_, depth) => `${" ".repeat(depth * 2)}- level ${depth}`).join(
    "\n",
  );

  expect(isTooDeep(quotes)).toBe(true);
  expect(isTooDeep(lists)).toBe(true);
  expect(isTooDeep("> > > fine\n\n- a\n  - b\n    - c")).toBe(false);
  const { container } = render(<Markdown text={`${quotes}\n\n${lists}`} streaming={false} />);
  expect(container.textContent).toContain("level 499");
  expect(container.querySelector("li")).toBeNull();
});

test("a very long message is plain until formatting is asked for", async () => {
  const { container } = render(<Markdown text={`**bold** ${"word ".repeat(41_000)}`} streaming={false} />);
  expect(container.querySelector("strong")).toBeNull();

  await userEvent.click(screen.getByRole("button", { name: "Format anyway" }));

  expect(container.querySelector("strong")).toHaveTextContent("bold");
});

test("C18: copying works without the clipboard interface, and a failure is said", async () => {
  const user = userEvent.setup();
  vi.stubGlobal("navigator", { ...navigator, clipboard: undefined });
  const copy = vi.fn(() => true);
  Object.assign(document, { execCommand: copy });
  render(<Markdown text={"```\nlet a;\n```"} streaming={false} />);

  await user.click(screen.getByRole("button", { name: "Copy code" }));
  expect(await screen.findByText("Copied")).toBeInTheDocument();
  copy.mockReturnValue(false);
  await user.click(screen.getByRole("button", { name: "Copy code" }));

  expect(await screen.findByText("Could not copy")).toBeInTheDocument();
  vi.unstubAllGlobals();
});
