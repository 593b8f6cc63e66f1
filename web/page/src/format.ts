// Quantities as people read them; three digits that count, as the library prints them.
const TIMES: [number, string][] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const COUNTS: [number, string][] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];

function digits(value: number): string {
  if (value === 0) return '0';
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)) + 1e-9));
  return value.toFixed(Math.min(places, 6));
}

function scaled(value: number, units: [number, string][], space: string): string {
  const size = Math.abs(value);
  const [unit, name] = units.find(([unit]) => size >= unit * 0.9995) ?? units[units.length - 1]!;
  return `${digits(value / unit)}${name ? space + name : ''}`;
}

/** Of a tick: without zeros that say nothing. */
export const short = (text: string): string => text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');

/** An upper end that an interval does not have is infinite. */
export const time = (ns: number): string => (Number.isFinite(ns) ? scaled(ns, TIMES, '\u202f') : '∞');
export const count = (value: number): string => scaled(value, COUNTS, '\u202f');
export const bytes = (value: number): string => (Number.isFinite(value) ? `${count(value).replace(/(\d)$/, '$1\u202f')}B`.replace('kB', 'KB') : '∞');
export const percent = (share: number, places = 0): string => `${(100 * share).toFixed(places)}\u202f%`;
export const signed = (ns: number): string => `${ns < 0 ? '−' : '+'}${time(Math.abs(ns))}`;
export const bandwidth = (bytesPerS: number): string => `${count(8 * bytesPerS).replace(/(\d)$/, '$1\u202f')}bit/s`;
export const plural = (n: number, one: string, many = `${one}s`): string => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
