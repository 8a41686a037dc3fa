/** The product's name as it is written everywhere. */
import type { ReactNode } from "react";

export function Wordmark({ size = 20 }: { size?: number }): ReactNode {
  return (
    <span className="inline-flex items-center gap-2 font-semibold tracking-tight text-ink">
      <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" className="fill-mark" />
        <path
          d="M9 23 16 8l7 15"
          className="stroke-white"
          fill="none"
          strokeWidth="3"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
        <circle cx="16" cy="19.5" r="2.1" className="fill-white" />
      </svg>
      AgentX
    </span>
  );
}
