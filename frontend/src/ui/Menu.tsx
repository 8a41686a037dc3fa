/** A menu behind a button. It stays in its place in the document, so that it belongs to its landmark. */
import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";

interface MenuProps {
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
  side?: "top" | "bottom";
  /** True leaves the keyboard's place to what an item opened. */
  keepFocus?: () => boolean;
}

export function Menu({ trigger, children, align = "end", side = "bottom", keepFocus }: MenuProps): ReactNode {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Content
        align={align}
        side={side}
        sideOffset={6}
        collisionPadding={8}
        className="fade-in z-50 min-w-44 rounded-xl border border-line bg-surface p-1 text-sm shadow-panel"
        onCloseAutoFocus={(event) => keepFocus?.() && event.preventDefault()}
      >
        {children}
      </DropdownMenu.Content>
    </DropdownMenu.Root>
  );
}

const ITEM =
  "touch flex min-h-8 cursor-default items-center gap-2 rounded-lg px-2.5 py-1 outline-none select-none data-highlighted:bg-hover";

interface MenuItemProps {
  icon: ReactNode;
  children: ReactNode;
  danger?: boolean;
  onSelect: () => void;
}

export function MenuItem({ icon, children, danger, onSelect }: MenuItemProps): ReactNode {
  return (
    <DropdownMenu.Item className={`${ITEM} ${danger ? "text-danger-ink" : "text-ink"}`} onSelect={onSelect}>
      {icon}
      {children}
    </DropdownMenu.Item>
  );
}

interface MenuChoiceProps<T extends string> {
  label: string;
  value: T;
  choices: { value: T; label: string; icon: ReactNode }[];
  onChoose: (value: T) => void;
}

export function MenuChoice<T extends string>({
  label,
  value,
  choices,
  onChoose,
}: MenuChoiceProps<T>): ReactNode {
  return (
    <DropdownMenu.RadioGroup value={value} onValueChange={(next) => onChoose(next as T)} aria-label={label}>
      <DropdownMenu.Label className="px-2.5 pt-1.5 pb-1 text-xs font-medium text-muted">
        {label}
      </DropdownMenu.Label>
      {choices.map((choice) => (
        <DropdownMenu.RadioItem
          key={choice.value}
          value={choice.value}
          className={`${ITEM} text-ink`}
          onSelect={(event) => event.preventDefault()}
        >
          {choice.icon}
          <span className="flex-1">{choice.label}</span>
          <DropdownMenu.ItemIndicator className="text-accent-ink">
            <span aria-hidden>✓</span>
          </DropdownMenu.ItemIndicator>
        </DropdownMenu.RadioItem>
      ))}
    </DropdownMenu.RadioGroup>
  );
}

export function MenuLine(): ReactNode {
  return <DropdownMenu.Separator className="my-1 h-px bg-line" />;
}
