/** Buttons of the three weights that the product has. */
import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  weight?: "primary" | "normal" | "danger";
  ref?: Ref<HTMLButtonElement>;
}

const WEIGHTS = {
  primary: "bg-accent text-on-accent border-transparent hover:bg-accent-strong",
  normal: "bg-surface text-ink border-line-strong hover:bg-hover",
  danger: "bg-danger text-on-danger border-transparent hover:opacity-90",
};

export function Button({
  weight = "normal",
  className = "",
  type = "button",
  ...rest
}: ButtonProps): ReactNode {
  return (
    <button
      type={type}
      className={`touch inline-flex min-h-8 items-center justify-center gap-1.5 rounded-lg border px-3 text-sm font-medium transition-colors disabled:cursor-not-allowed disabled:opacity-55 ${WEIGHTS[weight]} ${className}`}
      {...rest}
    />
  );
}

interface IconButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  label: string;
  ref?: Ref<HTMLButtonElement>;
}

/** A button that shows an icon alone. `label` is its name, and its tooltip. */
export function IconButton({ label, className = "", type = "button", ...rest }: IconButtonProps): ReactNode {
  return (
    <button
      type={type}
      aria-label={label}
      title={label}
      className={`touch inline-flex size-8 shrink-0 items-center justify-center rounded-lg text-muted transition-colors hover:bg-hover hover:text-ink disabled:cursor-not-allowed disabled:opacity-50 ${className}`}
      {...rest}
    />
  );
}
