"""Try to refute a promise: neighbouring tables, attacks, lower bounds on epsilon. An audit can refute, never prove."""
