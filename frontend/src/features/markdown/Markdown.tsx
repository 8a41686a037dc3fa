/** A markdown text, complete or still growing. Blocks that are finished keep their DOM nodes whatever follows them. */
import type { Links } from "marked";
import remend from "remend";
import { Component, memo, type ReactNode, useMemo, useRef, useState } from "react";

import { Button } from "@/ui/Button";

import {
  type Blocks,
  isEmphasisTooDeep,
  isFenceClosed,
  isTooDeep,
  NO_BLOCKS,
  PLAIN_ABOVE,
  splitBlocks,
} from "./blocks";
import { makeLexer } from "./lexer";
import { renderTokens } from "./tokens";

interface MarkdownProps {
  text: string;
  streaming: boolean;
}

export function Markdown({ text, streaming }: MarkdownProps): ReactNode {
  const [formatAnyway, setFormatAnyway] = useState(false);
  if (text.length > PLAIN_ABOVE && !formatAnyway) {
    return (
      <div className="markdown">
        <Button onClick={() => setFormatAnyway(true)}>Format anyway</Button>
        <p className="whitespace-pre-wrap">{text}</p>
      </div>
    );
  }
  return <Formatted text={text} streaming={streaming} />;
}

function Formatted({ text, streaming }: MarkdownProps): ReactNode {
  const before = useRef<Blocks>(NO_BLOCKS);
  const split = useMemo(() => {
    before.current = splitBlocks(text, before.current);
    return before.current;
  }, [text]);
  const last = split.blocks.length - 1;
  return (
    <div className="markdown">
      {split.blocks.map((raw, index) => (
        <SafeBlock key={index} raw={raw}>
          <Block raw={raw} growing={streaming && index === last} links={usedLinks(raw, split.links)} />
        </SafeBlock>
      ))}
    </div>
  );
}

const NO_LINKS: Links = {};

/** Only blocks with brackets can refer to definitions; the others must not be drawn again when one appears. */
function usedLinks(raw: string, links: Links): Links {
  return raw.includes("[") ? links : NO_LINKS;
}

interface BlockProps {
  raw: string;
  growing: boolean;
  links: Links;
}

const Block = memo(function Block({ raw, growing, links }: BlockProps): ReactNode {
  const content = useMemo(() => {
    if (isTooDeep(raw) || isEmphasisTooDeep(raw)) return <p className="whitespace-pre-wrap">{raw}</p>;
    // Markers that are open at the end of a growing text are closed for the moment, so that `**bo` is bold already.
    const source =
      growing && isFenceClosed(raw)
        ? remend(raw, { htmlTags: false, images: false, linkMode: "text-only", katex: false })
        : raw;
    const lexer = makeLexer();
    Object.assign(lexer.tokens.links, links);
    return renderTokens(lexer.lex(source), { complete: !growing || isFenceClosed(raw) });
  }, [raw, growing, links]);
  return content;
});

interface SafeBlockProps {
  raw: string;
  children: ReactNode;
}

/** A block that cannot be drawn is shown as plain text; the rest of the message is not affected. */
class SafeBlock extends Component<SafeBlockProps, { failedOn: string | null }> {
  override state: { failedOn: string | null } = { failedOn: null };

  static getDerivedStateFromError(): { failedOn: string } {
    return { failedOn: "" };
  }

  override componentDidCatch(): void {
    this.setState({ failedOn: this.props.raw });
  }

  override componentDidUpdate(previous: SafeBlockProps): void {
    if (this.state.failedOn !== null && previous.raw !== this.props.raw) this.setState({ failedOn: null });
  }

  override render(): ReactNode {
    if (this.state.failedOn !== null) return <p className="whitespace-pre-wrap">{this.props.raw}</p>;
    return this.props.children;
  }
}
