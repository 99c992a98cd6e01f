"""Topics as a program holds them: their two faces, and the steps both drive."""
