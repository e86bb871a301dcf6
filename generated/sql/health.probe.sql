/* health.probe */ select;
