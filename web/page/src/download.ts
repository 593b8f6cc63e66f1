// Files that people take away: tables, documents and pictures.
import { h } from './dom';

export function save(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const anchor = h('a', { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

type Cell = string | number | boolean | null | undefined;

export function csv(rows: Cell[][]): string {
  const cell = (value: Cell) => {
    const isMissing = value === null || value === undefined || value === Infinity;
    const text = isMissing ? '' : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

/** An SVG file; its colours are in the element's attributes. */
export function svgText(svg: SVGSVGElement): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}`;
}

export async function savePng(name: string, svg: SVGSVGElement): Promise<void> {
  const scale = 2;
  const [width, height] = [Number(svg.getAttribute('width')), Number(svg.getAttribute('height'))];
  const url = URL.createObjectURL(new Blob([svgText(svg)], { type: 'image/svg+xml' }));
  try {
    const image = new Image(width, height);
    image.src = url;
    await image.decode();
    const canvas = h('canvas', { width: width * scale, height: height * scale });
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'));
    if (blob) save(name, 'image/png', blob);
  } finally {
    URL.revokeObjectURL(url);
  }
}
