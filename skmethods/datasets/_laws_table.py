"""Textbook laws: text, variables with their ranges, and the function that is computed.

Units are such that a constant of nature that is no variable is 1. The test reads every
text and finds the same numbers as the function; of a signomial also from `terms`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Law(NamedTuple):
    """A law.

    Attributes
    ----------
    target : str
        What it gives.
    formula : str
        Plain infix text in the names of `ranges`; ``pi``, ``exp``, ``sqrt``, ``sin``
        and ``cos`` mean what they say.
    description : str
    ranges : dict of str to (float, float)
        The variables in order, and the interval that each is drawn from.
    function : callable
        Takes one array per variable, in that order.
    terms : tuple of (float, dict of str to float), or None
        Coefficient and exponents of each term if the law is a signomial.
    """

    target: str
    formula: str
    description: str
    ranges: dict
    function: Callable
    terms: tuple | None = None


def _ranges(names, low=1.0, high=5.0, **others):
    """`names`, separated by spaces, with one range unless `others` has another."""
    return {name: others.get(name, (low, high)) for name in names.split()}


_SIGNOMIALS = {
    "bernoulli": Law(
        "total_pressure",
        "p + rho*v**2/2 + rho*g*h",
        "Bernoulli: static, dynamic and hydrostatic pressure along a streamline.",
        _ranges("p rho v g h"),
        lambda p, rho, v, g, h: p + rho * v**2 / 2 + rho * g * h,
        (
            (1.0, {"p": 1}),
            (0.5, {"rho": 1, "v": 2}),
            (1.0, {"rho": 1, "g": 1, "h": 1}),
        ),
    ),
    "coulomb_force": Law(
        "force",
        "q1*q2/(4*pi*epsilon*r**2)",
        "Coulomb: force between two charges at the distance r.",
        _ranges("q1 q2 epsilon r"),
        lambda q1, q2, epsilon, r: q1 * q2 / (4 * np.pi * epsilon * r**2),
        ((1 / (4 * np.pi), {"q1": 1, "q2": 1, "epsilon": -1, "r": -2}),),
    ),
    "de_broglie": Law(
        "wavelength",
        "h/sqrt(2*m*energy)",
        "De Broglie: wavelength of a slow particle of a given kinetic energy.",
        _ranges("h m energy"),
        lambda h, m, energy: h / np.sqrt(2 * m * energy),
        ((1 / np.sqrt(2), {"h": 1, "m": -0.5, "energy": -0.5}),),
    ),
    "drag_force": Law(
        "force",
        "rho*v**2*c_d*area/2",
        "Drag of a body of a given cross-section at high Reynolds number.",
        _ranges("rho v c_d area"),
        lambda rho, v, c_d, area: rho * v**2 * c_d * area / 2,
        ((0.5, {"rho": 1, "v": 2, "c_d": 1, "area": 1}),),
    ),
    "effective_potential": Law(
        "potential",
        "L**2/(2*m*r**2) - k/r",
        "Radial motion in a Kepler orbit: centrifugal barrier and attraction.",
        _ranges("L m k r"),
        lambda L, m, k, r: L**2 / (2 * m * r**2) - k / r,
        (
            (0.5, {"L": 2, "m": -1, "r": -2}),
            (-1.0, {"k": 1, "r": -1}),
        ),
    ),
    "free_motion": Law(
        "position",
        "x0 + v0*t + a*t**2/2",
        "Motion in a line with constant acceleration.",
        _ranges("x0 v0 a t"),
        lambda x0, v0, a, t: x0 + v0 * t + a * t**2 / 2,
        (
            (1.0, {"x0": 1}),
            (1.0, {"v0": 1, "t": 1}),
            (0.5, {"a": 1, "t": 2}),
        ),
    ),
    "hagen_poiseuille": Law(
        "flow",
        "pi*r**4*dp/(8*mu*length)",
        "Hagen and Poiseuille: laminar flow through a pipe of radius r.",
        _ranges("r dp mu length"),
        lambda r, dp, mu, length: np.pi * r**4 * dp / (8 * mu * length),
        ((np.pi / 8, {"r": 4, "dp": 1, "mu": -1, "length": -1}),),
    ),
    "ideal_gas": Law(
        "pressure",
        "n*R*T/V",
        "Ideal gas: pressure of n moles in the volume V.",
        _ranges("n R T V"),
        lambda n, R, T, V: n * R * T / V,
        ((1.0, {"n": 1, "R": 1, "T": 1, "V": -1}),),
    ),
    "kepler_third": Law(
        "period",
        "2*pi*sqrt(a**3/(G*M))",
        "Kepler's third law: period of an orbit with the semi-major axis a.",
        _ranges("a G M"),
        lambda a, G, M: 2 * np.pi * np.sqrt(a**3 / (G * M)),
        ((2 * np.pi, {"a": 1.5, "G": -0.5, "M": -0.5}),),
    ),
    "larmor_power": Law(
        "power",
        "q**2*a**2/(6*pi*epsilon*c**3)",
        "Larmor: power that an accelerated charge radiates.",
        _ranges("q a epsilon c"),
        lambda q, a, epsilon, c: q**2 * a**2 / (6 * np.pi * epsilon * c**3),
        ((1 / (6 * np.pi), {"q": 2, "a": 2, "epsilon": -1, "c": -3}),),
    ),
    "lennard_jones": Law(
        "potential",
        "4*epsilon*((sigma/r)**12 - (sigma/r)**6)",
        "Lennard-Jones: repulsion and attraction of two atoms; high exponents.",
        _ranges("epsilon sigma r", sigma=(1.0, 2.0), r=(1.5, 3.0)),
        lambda epsilon, sigma, r: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6),
        (
            (4.0, {"epsilon": 1, "sigma": 12, "r": -12}),
            (-4.0, {"epsilon": 1, "sigma": 6, "r": -6}),
        ),
    ),
    "mechanical_energy": Law(
        "energy",
        "m*v**2/2 + m*g*h + k*x**2/2",
        "Kinetic energy, potential energy and that of a spring.",
        _ranges("m v g h k x"),
        lambda m, v, g, h, k, x: m * v**2 / 2 + m * g * h + k * x**2 / 2,
        (
            (0.5, {"m": 1, "v": 2}),
            (1.0, {"m": 1, "g": 1, "h": 1}),
            (0.5, {"k": 1, "x": 2}),
        ),
    ),
    "newton_gravitation": Law(
        "force",
        "G*m1*m2/r**2",
        "Newton: attraction of two masses at the distance r.",
        _ranges("G m1 m2 r"),
        lambda G, m1, m2, r: G * m1 * m2 / r**2,
        ((1.0, {"G": 1, "m1": 1, "m2": 1, "r": -2}),),
    ),
    "pendulum_period": Law(
        "period",
        "2*pi*sqrt(length/g)",
        "Period of a pendulum with a small amplitude.",
        _ranges("length g"),
        lambda length, g: 2 * np.pi * np.sqrt(length / g),
        ((2 * np.pi, {"length": 0.5, "g": -0.5}),),
    ),
    "resonance_frequency": Law(
        "frequency",
        "1/(2*pi*sqrt(inductance*capacitance))",
        "Thomson: resonance of a coil and a capacitor.",
        _ranges("inductance capacitance"),
        lambda inductance, capacitance: (
            1 / (2 * np.pi * np.sqrt(inductance * capacitance))
        ),
        ((1 / (2 * np.pi), {"inductance": -0.5, "capacitance": -0.5}),),
    ),
    "reynolds_number": Law(
        "reynolds",
        "rho*v*d/mu",
        "Reynolds number: inertia over viscosity.",
        _ranges("rho v d mu"),
        lambda rho, v, d, mu: rho * v * d / mu,
        ((1.0, {"rho": 1, "v": 1, "d": 1, "mu": -1}),),
    ),
    "stefan_boltzmann": Law(
        "power",
        "emissivity*area*(T**4 - T0**4)",
        "Stefan and Boltzmann: net radiation of a body in its surroundings.",
        _ranges("emissivity area T T0", emissivity=(0.1, 1.0)),
        lambda emissivity, area, T, T0: emissivity * area * (T**4 - T0**4),
        (
            (1.0, {"emissivity": 1, "area": 1, "T": 4}),
            (-1.0, {"emissivity": 1, "area": 1, "T0": 4}),
        ),
    ),
    "stokes_velocity": Law(
        "velocity",
        "2*(rho_p - rho_f)*g*r**2/(9*mu)",
        "Stokes: speed at which a small sphere sinks in a viscous fluid.",
        _ranges("rho_p rho_f g r mu", rho_p=(3.0, 8.0), rho_f=(1.0, 3.0)),
        lambda rho_p, rho_f, g, r, mu: 2 * (rho_p - rho_f) * g * r**2 / (9 * mu),
        (
            (2 / 9, {"rho_p": 1, "g": 1, "r": 2, "mu": -1}),
            (-2 / 9, {"rho_f": 1, "g": 1, "r": 2, "mu": -1}),
        ),
    ),
    "string_frequency": Law(
        "frequency",
        "sqrt(tension/density)/(2*length)",
        "Mersenne: fundamental frequency of a stretched string.",
        _ranges("tension density length"),
        lambda tension, density, length: np.sqrt(tension / density) / (2 * length),
        ((0.5, {"tension": 0.5, "density": -0.5, "length": -1}),),
    ),
    "thin_lens": Law(
        "power",
        "1/s_object + 1/s_image",
        "Refractive power of a thin lens from the two distances.",
        _ranges("s_object s_image"),
        lambda s_object, s_image: 1 / s_object + 1 / s_image,
        ((1.0, {"s_object": -1}), (1.0, {"s_image": -1})),
    ),
}

_OTHERS = {
    "barometric": Law(
        "pressure",
        "p0*exp(-m*g*h/T)",
        "Pressure of an isothermal atmosphere at the height h.",
        _ranges("p0 m g h T", m=(0.1, 1.0), g=(0.5, 2.0)),
        lambda p0, m, g, h, T: p0 * np.exp(-m * g * h / T),
    ),
    "bragg": Law(
        "wavelength",
        "2*d*sin(theta)/n",
        "Bragg: wavelength that a crystal reflects at an angle, in the order n.",
        _ranges("d theta n", theta=(0.1, 1.5)),
        lambda d, theta, n: 2 * d * np.sin(theta) / n,
    ),
    "damped_oscillator": Law(
        "displacement",
        "a*exp(-damping*t)*cos(omega*t)",
        "A damped oscillation that starts at its amplitude.",
        _ranges("a damping omega t", damping=(0.05, 0.5), omega=(1.0, 3.0)),
        lambda a, damping, omega, t: a * np.exp(-damping * t) * np.cos(omega * t),
    ),
    "doppler_shift": Law(
        "frequency",
        "f*(c + v_observer)/(c - v_source)",
        "Doppler: pitch of sound when source and observer approach each other.",
        _ranges("f c v_observer v_source", c=(5.0, 10.0), v_source=(1.0, 4.0)),
        lambda f, c, v_observer, v_source: f * (c + v_observer) / (c - v_source),
    ),
    "gaussian": Law(
        "density",
        "exp(-(x - mu)**2/(2*sigma**2))/(sigma*sqrt(2*pi))",
        "The normal density.",
        _ranges("x mu sigma", sigma=(1.0, 3.0)),
        lambda x, mu, sigma: (
            np.exp(-((x - mu) ** 2) / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi))
        ),
    ),
    "lorentz_factor": Law(
        "factor",
        "1/sqrt(1 - v**2/c**2)",
        "Lorentz: dilation of time at the speed v.",
        _ranges("v c", v=(1.0, 2.5), c=(3.0, 10.0)),
        lambda v, c: 1 / np.sqrt(1 - v**2 / c**2),
    ),
    "planck_radiation": Law(
        "radiance",
        "2*h*f**3/(c**2*(exp(h*f/T) - 1))",
        "Planck: spectrum of a black body at the frequency f.",
        _ranges("h f c T", h=(0.5, 2.0)),
        lambda h, f, c, T: 2 * h * f**3 / (c**2 * (np.exp(h * f / T) - 1)),
    ),
    "relativistic_energy": Law(
        "energy",
        "sqrt((p*c)**2 + (m*c**2)**2)",
        "Energy of a particle from its momentum and its rest mass.",
        _ranges("p c m"),
        lambda p, c, m: np.sqrt((p * c) ** 2 + (m * c**2) ** 2),
    ),
    "snell": Law(
        "index",
        "n1*sin(theta1)/sin(theta2)",
        "Snell: refractive index of the second medium from the two angles.",
        _ranges("n1 theta1 theta2", low=0.2, high=1.5, n1=(1.0, 2.0)),
        lambda n1, theta1, theta2: n1 * np.sin(theta1) / np.sin(theta2),
    ),
    "van_der_waals": Law(
        "pressure",
        "R*T/(V - b) - a/V**2",
        "Van der Waals: pressure of a real gas with the molar volume V.",
        _ranges("R T V a b", V=(2.0, 6.0), b=(0.1, 1.0)),
        lambda R, T, V, a, b: R * T / (V - b) - a / V**2,
    ),
}

#: Name -> law: the signomials first, both in alphabetical order.
TABLE = _SIGNOMIALS | _OTHERS
