/** A formula. Its source is shown until the typesetter has been loaded, and when it cannot be set. */
import { memo, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";

type Typeset = (formula: string, target: HTMLElement, display: boolean) => boolean;

let typesetter: Typeset | null = null;

interface FormulaProps {
  raw: string;
  text: string;
  display: boolean;
}

export const Formula = memo(function Formula({ raw, text, display }: FormulaProps): ReactNode {
  const [typeset, setTypeset] = useState<Typeset | null>(() => typesetter);
  const [failed, setFailed] = useState(false);
  const target = useRef<HTMLSpanElement>(null);

  useEffect(() => {
    if (typeset) return;
    let current = true;
    import("./typeset")
      .then((module) => {
        typesetter = module.typesetFormula;
        if (current) setTypeset(() => module.typesetFormula);
      })
      .catch(() => undefined); // without the typesetter the source is still there
    return () => {
      current = false;
    };
  }, [typeset]);

  useLayoutEffect(() => {
    if (typeset && target.current) setFailed(!typeset(text, target.current, display));
  }, [typeset, text, display]);

  if (!typeset || failed) return <span className="whitespace-pre-wrap">{raw.trim()}</span>;
  return <span ref={target} className={display ? "formula" : undefined} />;
});
