/** What a person said, wherever it stands. */
import type { ReactNode } from "react";

export function Bubble({ children }: { children: ReactNode }): ReactNode {
  return (
    <div className="max-w-[85%] rounded-2xl rounded-br-md bg-raised px-4 py-2.5 text-base break-words whitespace-pre-wrap">
      {children}
    </div>
  );
}
