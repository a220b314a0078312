ASSERT VALUES readings (celsius) VALUES (7.5);
