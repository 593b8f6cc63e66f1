"""Renders the frames of this folder: a path other than the trainer's renderer.

Distance fields are traced in numpy: a torus, a capsule and a rounded block above an uneven floor,
with wood-like rings, waves and gravel for textures, soft shadows and a lens with a vignette.
Usage: python render.py
"""

import numpy as np

WIDTH, HEIGHT, FOCAL = 256, 192, 215.0
FRAMES = 12


def floor_height(x, z):
    return 1.3 + 0.05 * np.sin(2.1 * x) * np.cos(1.7 * z)


def distances(p, frame):
    x, y, z = p[..., 0], p[..., 1], p[..., 2]
    floor = (floor_height(x, z) - y) * 0.9
    back = 4.6 - z
    turn = 0.12 * frame
    tx, ty, tz = x + 0.9, y - 0.75, z - 2.6
    tx, tz = np.cos(turn) * tx - np.sin(turn) * tz, np.sin(turn) * tx + np.cos(turn) * tz
    torus = np.hypot(np.hypot(tx, ty) - 0.42, tz) - 0.15
    cx, cy, cz = x - (-0.6 + 0.13 * frame), y - 0.8, z - 2.0
    along = np.clip(cy, -0.3, 0.3)
    capsule = np.sqrt(cx**2 + (cy - along) ** 2 + cz**2) - 0.2
    bx, by, bz = np.abs(x - 1.1) - 0.3, np.abs(y - 0.95) - 0.3, np.abs(z - 2.9) - 0.25
    outside = np.sqrt(np.maximum(bx, 0) ** 2 + np.maximum(by, 0) ** 2 + np.maximum(bz, 0) ** 2)
    block = outside + np.minimum(np.maximum(np.maximum(bx, by), bz), 0) - 0.06
    return np.stack([floor, back, torus, capsule, block])


def trace(origin, direction, frame, most=8.0, steps=90):
    t = np.full(direction.shape[:-1], 0.02)
    for _ in range(steps):
        t = np.minimum(t + distances(origin + direction * t[..., None], frame).min(0), most)
    return t


def colours(p, kind):
    x, y, z = p[..., 0], p[..., 1], p[..., 2]
    gravel = 0.5 + 0.25 * np.sin(9 * x + 3 * np.sin(5 * z)) * np.sin(11 * z + 2 * np.sin(7 * x))
    plaster = 0.7 + 0.06 * np.sin(3.0 * x + np.sin(4 * y)) + 0 * z
    rings = 0.5 + 0.5 * np.sin(40 * np.hypot(x + 0.9, y - 0.75))
    waves = 0.5 + 0.5 * np.sin(30 * y + 4 * np.sin(6 * z))
    dots = (np.sin(25 * x) * np.sin(25 * y) * np.sin(25 * z) > 0.1) * 1.0
    shades = [gravel, plaster, 0.35 + 0.5 * rings, 0.3 + 0.6 * waves, 0.35 + 0.5 * dots]
    tints = [(0.75, 0.7, 0.62), (0.8, 0.82, 0.85), (0.8, 0.45, 0.2), (0.25, 0.7, 0.4), (0.3, 0.4, 0.85)]
    picture = np.zeros(p.shape)
    for number, (shade, tint) in enumerate(zip(shades, tints)):
        picture = np.where((kind == number)[..., None], shade[..., None] * np.array(tint), picture)
    return picture


def render(frame):
    yaw, position = 0.010 * frame, np.array([0.02 * frame, 0.0, -0.3 + 0.015 * frame])
    pitch = -0.2
    v, u = np.mgrid[0:HEIGHT, 0:WIDTH]
    ray = np.stack([(u + 0.5 - WIDTH / 2) / FOCAL, (v + 0.5 - HEIGHT / 2) / FOCAL, np.ones(u.shape)], -1)
    lift = np.array([[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]])
    turn = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
    rotation = turn @ lift
    length = np.linalg.norm(ray, axis=-1)
    direction = (ray / length[..., None]) @ rotation.T
    t = trace(position, direction, frame)
    p = position + direction * t[..., None]
    field = distances(p, frame)
    kind = field.argmin(0)
    step = 1e-3
    normal = np.stack(
        [distances(p + step * axis, frame).min(0) - distances(p - step * axis, frame).min(0) for axis in np.eye(3)], -1
    )
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True) + 1e-9
    lamp = np.array([0.5, -0.8, -0.4]) / np.linalg.norm([0.5, -0.8, -0.4])
    shadow = trace(p + 0.02 * normal, np.broadcast_to(lamp, p.shape), frame, 4.0, 40) > 3.5
    light = 0.55 + 0.45 * np.maximum(normal @ lamp, 0) * (0.4 + 0.6 * shadow)
    picture = colours(p, kind) * light[..., None]
    picture *= (1 - 0.25 * (length - 1))[..., None]
    picture += np.random.default_rng(frame).normal(0, 0.015, picture.shape)
    return np.clip(picture, 0, 1), t / length, position, (yaw, pitch)


def quaternion(yaw, pitch):
    """Of a turn around y after one around x."""
    a, b = yaw / 2, pitch / 2
    return np.cos(a) * np.sin(b), np.sin(a) * np.cos(b), -np.sin(a) * np.sin(b), np.cos(a) * np.cos(b)


def main():
    with open("intrinsics.csv", "w") as file:
        file.write(f"width,height,fx,fy,cx,cy\n{WIDTH},{HEIGHT},{FOCAL},{FOCAL},{WIDTH / 2},{HEIGHT / 2}\n")
    poses = ["file,tx,ty,tz,qx,qy,qz,qw"]
    for frame in range(FRAMES):
        picture, depth, position, (yaw, pitch) = render(frame)
        name = f"{frame:04}"
        with open(f"{name}.ppm", "wb") as file:
            file.write(f"P6\n{WIDTH} {HEIGHT}\n255\n".encode() + (picture * 255).astype(np.uint8).tobytes())
        with open(f"{name}.pgm", "wb") as file:
            file.write(f"P5\n{WIDTH} {HEIGHT}\n65535\n".encode() + (depth * 1000).astype(">u2").tobytes())
        numbers = ",".join(f"{value:.6f}" for value in (*position, *quaternion(yaw, pitch)))
        poses.append(f"{name}.ppm,{numbers}")
    with open("poses.csv", "w") as file:
        file.write("\n".join(poses) + "\n")


main()
