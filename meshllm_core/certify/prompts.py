"""The prompts that codecs are measured on: many kinds of text, short, the same everywhere."""

import hashlib

PROMPTS = (
    "The history of the lighthouse begins with",
    "Water boils at a lower temperature on a mountain because",
    "Once upon a time, a small robot lived in a garden where",
    "def fibonacci(n):\n    ",
    "Dear Ms. Alvarez,\n\nThank you for your letter of 3 March. I am writing to",
    "The three largest cities in Japan are",
    "Question: What is 17 times 23?\nAnswer:",
    "Ingredients for a simple bread: flour, water, salt and yeast. First,",
    "SELECT name, COUNT(*) FROM orders WHERE",
    "The difference between a virus and a bacterium is that",
    "Il était une fois, dans un petit village au bord de la mer,",
    "In 1969, two astronauts walked on the Moon while the third",
    "# Installation\n\nTo install the program on Linux, run",
    "She opened the door, looked at the empty room, and said:",
    "A list of prime numbers below fifty: 2, 3, 5, 7,",
    "Die Hauptstadt von Österreich ist",
    "The stock market fell today after the central bank announced",
    "User: How do I remove a coffee stain from a cotton shirt?\nAssistant:",
    '{"name": "Anna", "age": 34, "city": "Lyon", "languages": [',
    "Photosynthesis is the process by which plants",
    "The meeting will take place on Tuesday at nine. The agenda is as follows:\n1.",
    "for (int i = 0; i < count; i++) {\n    ",
    "According to the theory of relativity, a moving clock",
    "El perro corrió por la playa mientras los niños",
    "The patient complained of headaches and a fever. The doctor",
    "Translate to French: The weather is nice today.\nFrench:",
    "Rules of the game: each player draws seven cards, then",
    "Shakespeare wrote many plays. Among the most famous are",
    "import numpy as np\n\n# Compute the mean of each column\n",
    "If all cats are animals and some animals are black, then",
    "The river rises in the mountains, flows through",
    "Subject: Your order has been shipped\n\nHello,\n\nYour order",
    "An apple costs 40 cents and a pear costs 60 cents. Three apples and two pears cost",
    "The human heart has four chambers. Blood from the body",
    "Bees are important for farming because",
    "<html>\n<head>\n<title>My first page</title>\n",
    "Yesterday all my troubles seemed far away, but this morning",
    "The opposite of hot is cold. The opposite of early is",
    "Chapter 1\n\nThe train left the station at midnight with only",
    "To change a flat tyre, you need a jack and a wrench. Begin by",
    "The chemical symbol for gold is Au, for silver it is",
    "Пётр вышел из дома и увидел, что",
    "One advantage of electric cars is that they",
    "Monday: rain, 12 degrees. Tuesday: cloudy, 14 degrees. Wednesday:",
)


def prompts_digest() -> bytes:
    """SHA-256 of the prompts, for certificates: other prompts are another measurement."""
    return hashlib.sha256("\0".join(PROMPTS).encode()).digest()
