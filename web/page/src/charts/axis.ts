// Scales and ticks that several charts share.
import { scaleLinear, scaleLog } from 'd3-scale';

export type Scale = (value: number) => number;

/** A logarithmic scale a little wider than its values; an end that is not known is the scale's. */
export function logScale(values: number[], from: number, to: number): { scale: Scale; ticks: number[] } {
  const sound = values.filter((value) => value > 0 && Number.isFinite(value));
  const least = sound.length > 0 ? Math.min(...sound) : 1;
  const most = sound.length > 0 ? Math.max(...sound) : 10;
  const scale = scaleLog().domain([least / 1.15, Math.max(most * 1.15, least * 1.5)]).range([from, to]);
  const decades = Math.log10(most / least);
  const [low, high] = scale.domain() as [number, number];
  const ticks: number[] = [];
  const steps = decades > 2.2 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of steps) {
      const tick = step * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return { scale: (value) => scale(Math.min(Math.max(value, low / 10), high)), ticks };
}

/** A scale from zero to a little more than its values. */
export function linearScale(values: number[], from: number, to: number): { scale: Scale; ticks: number[] } {
  const scale = scaleLinear().domain([0, Math.max(...values, 1) * 1.06]).range([from, to]);
  return { scale: (value) => scale(value), ticks: scale.ticks(5) };
}

/** Colours of a picture that is saved: it has no style sheet. */
export const PAPER = { ink: '#14202b', quiet: '#5a6772', rule: '#d5dce2', accent: '#00756d', other: '#b4500a', paper: '#ffffff' };
